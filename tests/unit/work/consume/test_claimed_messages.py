"""The answer to a claim is written from pieces: it says what its messages say."""

import msgspec
import pytest

from relevo.work.consume.claimed_messages import ClaimedMessages
from relevo.work.store.interface import ClaimedRow
from relevo.work.store.lease import Lease

ID, OTHER = "01M7RYRFYYS670EDPF6C7FCSFH", "01M7RYRFYYS670EDPF6C7FCSFJ"
PLAIN = ClaimedRow(0, ID, 1, 0, "invoice", 2, 0, "{}", "application/json", "{}", ID, None, None, None, 7, 7, 0, None)
ROWS = [
    PLAIN,
    PLAIN._replace(id=OTHER, body='{"text":"\\u0000 \\" é 漢"}', correlation_id='order "1" \\ é\n'),
    PLAIN._replace(attempts=3, reclaims=1, message_type='a "type" \\ 漢', priority_tier=4, priority_score=-7),
    PLAIN._replace(labels='{"customer":"c \\"1\\" é"}', content_type='text/"plain"'),
    PLAIN._replace(body=None, causation_id="the \n cause", parent_id=OTHER, deadline_at=1_700_000_000_000),
]


@pytest.mark.parametrize("rows", [[], ROWS[:1], ROWS, [*ROWS, *reversed(ROWS)]], ids=["none", "one", "all", "mixed"])
def test_the_json_is_that_of_the_objects(rows: list[ClaimedRow]) -> None:
    lease = Lease("18bcfe56800a0b1c2d3e4f5061", 1, 2, "ada", "key:01J9", 3, 4_000, {row.id: 0 for row in rows})
    claimed = ClaimedMessages("invoices", lease, rows)
    assert claimed.encoded() == msgspec.json.encode(claimed.messages())
    assert len(claimed) == len(rows)
