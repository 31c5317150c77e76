"""The bytes in Redis: pure functions without I/O. docs/wire.md describes them; tests compare them with ChasquiMQ's."""
