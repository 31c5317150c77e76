"""Human review: what a person is asked, by whom it may be answered, and what becomes of the answer."""
