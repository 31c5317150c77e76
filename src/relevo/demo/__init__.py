"""The story `relevo demo` tells: real queues, real workers, a real server, and numbers that must add up."""
