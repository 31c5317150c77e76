"""Run by alembic for every command, on the connection that store/alteration.py passes, with its options."""

from alembic import context

given = context.config.attributes
context.configure(connection=given["connection"], **given["options"])
with context.begin_transaction():
    context.run_migrations()
