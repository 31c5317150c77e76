"""Django: a job that is sent if, and only if, the transaction that enqueued it is committed.

    pip install relevo[outbox] django
    RELEVO_REDIS_URL=redis://127.0.0.1:6390 python examples/django_outbox.py

One file for the sake of the example: the models belong into models.py, the command into management/commands/relay_outbox.py.
"""

# Django has no types of its own (django-stubs adds them).
# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false, reportGeneralTypeIssues=false

import asyncio
import os
import tempfile
from pathlib import Path

import django
from django.conf import settings
from django.core.management import BaseCommand, call_command
from django.db import connection, models, transaction
from sqlalchemy import create_engine

from relevo import Tasks, Worker
from relevo.outbox import Outbox, OutboxRelay, OutboxTable

URL = os.environ.get("RELEVO_REDIS_URL", "redis://127.0.0.1:6379")
FOLDER = tempfile.TemporaryDirectory(prefix="django-outbox-")
DATABASE = Path(FOLDER.name) / "shop.db"

settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": DATABASE}})
django.setup()


# --- models.py -----------------------------------------------------------------------------------------------------------


class Order(models.Model):
    customer = models.CharField(max_length=100)

    class Meta:
        app_label = "shop"


class OutboxRow(models.Model):
    """relevo's outbox table as a model, so that Django's migrations make it. The columns are those of `OutboxTable`."""

    seq = models.BigAutoField(primary_key=True)
    job_id = models.CharField(max_length=255)
    queue = models.CharField(max_length=255)
    name = models.CharField(max_length=256)
    data = models.BinaryField()
    options = models.TextField(null=True)
    run_at_ms = models.BigIntegerField(null=True)
    created_at_ms = models.BigIntegerField()
    held_by = models.CharField(max_length=26, null=True)
    held_until_ms = models.BigIntegerField(default=0)
    attempts = models.IntegerField(default=0)
    error = models.TextField(null=True)
    set_aside = models.BooleanField(default=False)

    class Meta:
        app_label = "shop"
        db_table = "relevo_outbox"
        indexes = [models.Index(fields=["set_aside", "queue", "seq"], name="relevo_outbox_line")]


# --- tasks.py ------------------------------------------------------------------------------------------------------------

table = OutboxTable()
outbox = Outbox(table)
tasks: Tasks[None] = Tasks()
confirmed: list[int] = []


@tasks.task()
async def confirm(customer: str, *, order: int) -> None:
    print(f"order {order}: confirmed to {customer}")
    confirmed.append(order)


def place_order(customer: str, *, paid: bool) -> None:
    with transaction.atomic():
        order = Order.objects.create(customer=customer)
        # `task_row` checks and encodes the call; Django inserts it, on its own connection and in this transaction.
        OutboxRow.objects.create(**outbox.task_row("orders", confirm, customer, order=order.pk))
        if not paid:
            raise ValueError(f"{customer} has not paid")  # the order is gone, and so is its confirmation


# --- management/commands/relay_outbox.py -----------------------------------------------------------------------------------


class RelayOutbox(BaseCommand):
    """`manage.py relay_outbox` runs until SIGTERM, `--once` sends what is there and ends."""

    def add_arguments(self, parser) -> None:
        parser.add_argument("--once", action="store_true")

    def handle(self, *, once: bool, **_) -> None:
        asyncio.run(self.relay(once))

    async def relay(self, once: bool) -> None:
        # The relay brings its own database connection; give SQLAlchemy the address of Django's database.
        relay = OutboxRelay(create_engine(f"sqlite:///{DATABASE}"), table, redis_url=URL)
        if not once:
            await relay.run()
            return
        self.stdout.write(f"relayed {await relay.drain()}")
        await relay.close()


# --- the story -----------------------------------------------------------------------------------------------------------


async def work() -> None:
    """Stands for `relevo worker`, which would go on."""
    async with Worker("orders", tasks, redis_url=URL) as worker:
        while len(confirmed) < 2:
            await worker.settled.wait_for()


def main() -> None:
    with connection.schema_editor() as editor:  # stands for `manage.py migrate`
        editor.create_model(Order)
        editor.create_model(OutboxRow)

    place_order("Ada", paid=True)
    try:
        place_order("Bob", paid=False)
    except ValueError as error:
        print(error)
    place_order("Eve", paid=True)

    print("in the outbox:", OutboxRow.objects.count())
    call_command(RelayOutbox(), once=True)
    print("in the outbox:", OutboxRow.objects.count())
    asyncio.run(work())
    FOLDER.cleanup()


if __name__ == "__main__":
    main()
