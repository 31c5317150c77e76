"""Pages for people: their inbox, the form of a review, the dead letters. Rendered here, without a script in the browser."""
