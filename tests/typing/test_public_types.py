"""The promise that a type checker knows every public name: `pyright --verifytypes` over the list of the API policy."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.test_api_policy import PUBLIC
from tests.servers.child import Child

NOT_YET = {
    *("relevo.Batch", "relevo.Consumer", "relevo.FlowRun", "relevo.HealthServer", "relevo.Lanes", "relevo.Metrics"),
    *("relevo.Producer", "relevo.PromoterProcess", "relevo.Queue", "relevo.QueueSnapshot", "relevo.Scheduler"),
    *("relevo.Task", "relevo.TaskJob", "relevo.Tasks", "relevo.Worker"),
    *("relevo.outbox.Outbox", "relevo.outbox.OutboxRelay", "relevo.outbox.OutboxTable"),
    *("relevo.spark.Lake", "relevo.spark.build", "relevo.spark.ingest", "relevo.spark.report"),
    *("relevo.testing.Clock", "relevo.testing.drain", "relevo.testing.enqueued"),
    *("relevo.testing.assert_enqueued", "relevo.testing.assert_not_enqueued"),
}
"""Names whose types lean on attributes without an annotation. The set only becomes smaller."""


@pytest.mark.whole  # it reads the whole package once more
@pytest.mark.timeout(180)
def test_every_public_name_has_a_complete_type(tmp_path: Path) -> None:
    # pyright looks for the packages we import in the first Python on the PATH.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [sys.executable, "-m", "pyright", "--verifytypes", "relevo", "--ignoreexternal", "--outputjson"]
    done = Child.run(*command, cwd=tmp_path, env={**os.environ, "PATH": path}, timeout=120)
    symbols: list[dict[str, Any]] = json.loads(done.out)["typeCompleteness"]["symbols"]
    known = {each["name"]: each["isTypeKnown"] and not each["isTypeAmbiguous"] for each in symbols}
    public = {f"{module}.{name}" for module, names in PUBLIC.items() for name in names}
    assert sorted(public - set(known)) == []
    incomplete = {name for name in public if not known[name]}
    assert sorted(incomplete - NOT_YET) == []
    assert sorted(NOT_YET - incomplete) == [], "these are complete: take them out of NOT_YET"
