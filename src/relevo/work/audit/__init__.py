"""What happened and who did it: the entries, whether they are as they were written, and one story out of them."""
