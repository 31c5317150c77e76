"""The page docs/views.md, made from what is declared. `make reference` writes it."""

from collections.abc import Iterator

from relevo.work.store.views import VIEWS
from tests.support.page import ROOT

PAGE = ROOT / "docs" / "views.md"
_KINDS = {"VARCHAR": "text", "BIGINT": "bigint", "INTEGER": "int"}

_HEAD = """# Views on work queues

`relevo db upgrade` makes these views beside its tables, the same on SQLite, PostgreSQL and MariaDB. Read them with any SQL
tool, with BI, or with [Spark](how-to/spark.md). Their names and columns stay; new columns may be added. The tables behind
them, whose names begin with `relevo_store_`, may change with any release: do not read those, and write to neither.

Times are milliseconds since 1970, documents are JSON text, and text is compared byte by byte. On MariaDB `before` is a reserved
word: write `a.before`.

```sql
SELECT queue, state, COUNT(*) FROM relevo_messages WHERE tenant = 'acme' GROUP BY queue, state
```
"""


def page() -> str:
    return "\n".join([_HEAD, *_sections()])


def _sections() -> Iterator[str]:
    for table in VIEWS.values():
        yield f"## {table.name}\n\n{table.comment}\n\n| column | type | holds |\n|---|---|---|"
        for column in table.columns:
            yield f"| `{column.name}` | {_KINDS[str(column.type)]} | {column.comment} |"
        yield ""


if __name__ == "__main__":
    PAGE.write_text(page())
