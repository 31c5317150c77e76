"""What the bodies of a queue must look like: JSON Schemas of a scope, by name and version, bound to queues."""
