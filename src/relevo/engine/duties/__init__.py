"""What one worker does for the whole queue: promote what is due, find what dead workers left; and watch idle queues."""
