"""Work queues: durable messages in SQL, ordered, claimed, settled, audited. Rows are the truth; Redis only keeps the order."""
