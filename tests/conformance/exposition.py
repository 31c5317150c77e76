"""What Prometheus would read: the samples of a text of metrics, by name and labels."""

from prometheus_client.parser import text_string_to_metric_families

from relevo import Metrics


class Exposition:
    """One scrape."""

    def __init__(self, text: bytes | str) -> None:
        text = text.decode() if isinstance(text, bytes) else text
        families = list(text_string_to_metric_families(text))
        self.types = {family.name: family.type for family in families}
        self.samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in families
            for sample in family.samples
        }

    @staticmethod
    def of(metrics: Metrics) -> "Exposition":
        return Exposition(metrics.text())

    def value(self, name: str, /, **labels: str) -> float | None:
        """The sample with exactly these labels; None when there is none."""
        return self.samples.get((name, frozenset(labels.items())))

    def labels(self, name: str, label: str) -> set[str]:
        """Every value of one label of a name."""
        return {dict(labels)[label] for at, labels in self.samples if at == name}
