"""Events told to other people's servers: signed, retried, logged, and never to an address inside our own network."""
