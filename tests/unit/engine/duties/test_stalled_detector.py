"""The detector judges nobody who had no chance to be heard."""

from relevo.engine.duties.stalled_detector import STALLED, SWEEP_CONSUMERS, StalledDetector
from relevo.engine.events.event_log import EventLog
from relevo.engine.service.leader_loop import HOLD_LOCK
from relevo.engine.settling.delivery import HeldDeliveries
from relevo.engine.settling.settle_request import SettleContext
from relevo.engine.settling.settler import Settler
from tests.patience import until
from tests.support.fake_server import KEYS, FakeServer


async def test_right_after_an_outage_it_looks_at_nothing() -> None:
    server = FakeServer()
    link, events = server.link(HOLD_LOCK, STALLED, SWEEP_CONSUMERS), EventLog(KEYS, enabled=False)
    settler = Settler(SettleContext(link, KEYS, "default", "me", HeldDeliveries(idle_s=0.03), events, 60, 100))
    detector = StalledDetector(link, KEYS, "default", "me", settler, events, idle_s=0.03, max_stalled=2, dlq_cap=100)
    await link.ready()
    server.away = True
    server.drop()
    link.open_soon()
    await until(lambda: link.down_for > 0.02)
    server.away = False
    await link.ready()
    waits_s = await detector.tick()
    assert waits_s is not None
    assert waits_s > 1
    assert server.asked("EVALSHA") == []
