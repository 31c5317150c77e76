"""Run by alembic for every command: hands it our tables and the connection that store/schema.py has opened."""

from alembic import context

from relevo.work.store.schema import configuration_of
from relevo.work.store.tables import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, **configuration_of(connection.dialect.name))
with context.begin_transaction():
    context.run_migrations()
