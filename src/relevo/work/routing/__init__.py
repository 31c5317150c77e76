"""Rules as data: when something happens to a message, the first rule whose condition holds says what is done with it."""
