"""The promise that a type checker knows every public name: `pyright --verifytypes` over the list of the API policy."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.test_api_policy import PUBLIC
from tests.servers.child import Child

MOST = 400
"""Names that a user can keep track of, and that we can keep."""


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
    assert len(public) <= MOST
    assert sorted(name for name in public if not known[name]) == []
