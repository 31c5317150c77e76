"""Makes sync_client.py from async_client.py: `python -m tests.client.unasync`. A test tells when it has to be run."""

import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "src" / "relevo" / "client"
SOURCE, TARGET = FOLDER / "async_client.py", FOLDER / "sync_client.py"

_HEAD = (
    '"""The client without asyncio. Made from async_client.py by `python -m tests.client.unasync`: do not edit here."""'
)
_WORDS = [
    (r"async def ", "def "),
    (r"await ", ""),
    (r"httpx\.AsyncClient", "httpx.Client"),
    (r"httpx\.AsyncBaseTransport", "httpx.BaseTransport"),
    (r"class AsyncClient", "class Client"),
    (r"__aenter__", "__enter__"),
    (r"__aexit__", "__exit__"),
    (r"\.aclose\(\)", ".close()"),
    (r"asyncio\.sleep", "time.sleep"),
    (r"import asyncio\nimport os", "import asyncio\nimport os\nimport time"),
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
                )  # fmt: skip

        asyncio.run(work())
'''


def unasynced() -> str:
    text = SOURCE.read_text()
    text = re.sub(r'\A""".*?"""', lambda _: _HEAD, text, flags=re.DOTALL)
    consume = text.rindex('        """Runs `handler`')
    text = text[:consume] + "@@CONSUME@@"
    for pattern, words in _WORDS:
        text = re.sub(pattern, words, text)
    text = text.replace("@@CONSUME@@", _CONSUME)
    ruff = [sys.executable, "-m", "ruff"]
    for arguments in (["check", "--fix", "--select", "I", "-q"], ["format", "-q"]):
        command = [*ruff, *arguments, "--stdin-filename", str(TARGET), "-"]
        text = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    return text


if __name__ == "__main__":
    TARGET.write_text(unasynced())
