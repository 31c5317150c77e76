"""Names and signatures of other libraries, kept as they are, on top of the engine."""
