"""A printed number with its place in print and the run that it is compared with."""

from dataclasses import dataclass
from functools import cache

from bench.datasets.metrics import METRICS, PRINTED, Metric, Printed, aggregated
from bench.reported import mapped


@dataclass(frozen=True)
class Number:
    """A printed number. Its fields are the columns of `bench.reported.mapped`."""

    source: str
    table: str
    method: str
    backbone: str
    variant: str
    task: str
    split: str
    metric: str
    value: float
    quoted_from: str
    run: str
    minus: str
    suite_backbone: str
    suite_split: str
    checkpoint: str
    reason: str
    deviation: str
    note: str
    aggregation: str

    @property
    def is_measurement(self) -> bool:
        """Whether it measures something: others are hyper-parameters."""
        return self.metric in PRINTED

    @property
    def is_score(self) -> bool:
        """Whether it is a score, of which more is better: no difference, and no step."""
        return self.metric in METRICS and METRICS[self.metric].is_main

    @property
    def label(self) -> tuple[str, ...]:
        """The printed row, as in `bench.reported.LABEL`."""
        return self.source, self.table, self.method, self.backbone, self.variant

    @property
    def our_metric(self) -> Metric:
        return METRICS[PRINTED[self.metric][0]]

    @property
    def form(self) -> Printed:
        """How its metric is printed."""
        return PRINTED[self.metric][1]

    @property
    def our_split(self) -> str:
        return self.suite_split or self.split

    @property
    def our_backbone(self) -> str:
        return self.suite_backbone or self.backbone

    @property
    def key(self) -> tuple[str, str, str]:
        """Our score of it, as in `bench.results.suite_results.RunResults.scores`."""
        return self.task, self.our_split, aggregated(PRINTED[self.metric][0], self.aggregation)


@cache
def numbers() -> tuple[Number, ...]:
    """Every printed number, in the order of print."""
    return tuple(Number(**row) for row in mapped().to_dict("records"))


def measurements() -> list[Number]:
    """The printed numbers that measure something, in the order of print."""
    return [number for number in numbers() if number.is_measurement]
