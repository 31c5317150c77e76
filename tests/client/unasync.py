"""Makes the client without asyncio from the other, file by file: `python -m tests.client.unasync`. A test tells when to."""

import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "src" / "relevo" / "client"
NOUNS = ("sender", "routing", "reviews", "schemas", "chunks", "erasures", "access", "webhooks", "events", "client")

_WORDS = [
    (r"async def ", "def "),
    (r"async with ", "with "),
    (r"async for ", "for "),
    (r"await ", ""),
    (r"httpx\.AsyncClient", "httpx.Client"),
    (r"httpx\.AsyncBaseTransport", "httpx.BaseTransport"),
    (r"\bAsync(Sender|Routing|Reviews|Schemas|ChunkStream|Erasures|Access|Webhooks|Events|Client|Generator)\b", r"\1"),
    (r"relevo\.client\.async_", "relevo.client.sync_"),
    (r"__aenter__", "__enter__"),
    (r"__aexit__", "__exit__"),
    (r"\.aclose\(\)", ".close()"),
    (r"\.aread\(\)", ".read()"),
    (r"\.aiter_lines\(\)", ".iter_lines()"),
    (r"\bGenerator\[Event\]", "Generator[Event, None, None]"),
    (r"asyncio\.sleep", "time.sleep"),
    (r"import asyncio\n(?=(?:import \w+\n)*import time\n)", ""),
    (r"import asyncio\n", "import time\n"),
    (
        r"from relevo.client.consumer import Consumer, Handler",
        "from relevo.client.async_client import AsyncClient\nfrom relevo.client.consumer import Handler",
    ),
]
_CONSUME = '''        """Runs `handler` for every message until SIGTERM or Ctrl-C, in a loop of its own; see `Consumer`."""

        async def work() -> None:
            async with AsyncClient(
                self.url, key=self._key, timeout_s=self._timeout_s, retry_s=self._retry_s
            ) as client:
                await client.consume(
                    scope, queue, handler, concurrency=concurrency, wait_s=wait_s, labels=labels,
                    subscription=subscription, consumer=consumer, drain_s=drain_s,
                )

        asyncio.run(work())
'''


def target(noun: str) -> Path:
    return FOLDER / f"sync_{noun}.py"


def unasynced(noun: str) -> str:
    text = (FOLDER / f"async_{noun}.py").read_text()
    head = f'"""The client without asyncio. Made from async_{noun}.py by `python -m tests.client.unasync`: do not edit here."""'
    text = re.sub(r'\A""".*?"""', lambda _: head, text, flags=re.DOTALL)
    if noun == "client":  # consuming needs a loop in any case
        text = text[: text.rindex('        """Runs `handler`')] + "@@CONSUME@@"
        text = text.replace("from collections.abc", "import asyncio_of_its_own\nfrom collections.abc", 1)
    for pattern, words in _WORDS:
        text = re.sub(pattern, words, text)
    text = text.replace("@@CONSUME@@", _CONSUME).replace("import asyncio_of_its_own", "import asyncio")
    ruff = [sys.executable, "-m", "ruff"]
    for arguments in (["check", "--fix", "--select", "I", "-q"], ["format", "-q"]):
        command = [*ruff, *arguments, "--stdin-filename", str(target(noun)), "-"]
        text = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    return text


if __name__ == "__main__":
    for each in NOUNS:
        target(each).write_text(unasynced(each))
