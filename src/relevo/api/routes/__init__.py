"""One router a file, for one kind of thing: reads the request, calls `work`, and shapes the answer. `app.py` collects them."""
