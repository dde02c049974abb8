"""Spans by OpenTelemetry: sent in batches, in a thread of its own, by any exporter that it knows.

Imported only where the settings name an exporter: Azure Monitor's costs a third of a cold start.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import Decision, ParentBased, Sampler, SamplingResult
from opentelemetry.trace import Span as Given
from opentelemetry.trace import Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from shared.telemetry.spans import Attributes

TRACE_CONTEXT = TraceContextTextMapPropagator()


class RatioSampler(Sampler):
    """Takes a share of the requests by chance: the id of a trace may be a caller's choice."""

    def __init__(self, ratio: float) -> None:
        self._ratio = ratio

    def should_sample(self, *_: object, **__: object) -> SamplingResult:
        """Whether this one is told of."""
        taken = random.random() < self._ratio
        return SamplingResult(Decision.RECORD_AND_SAMPLE if taken else Decision.DROP)

    def get_description(self) -> str:
        """What OpenTelemetry calls it."""
        return f"Share({self._ratio})"


class OpenTelemetryTracer:
    """Makes spans for an exporter; `ratio` is the share of the requests that are told of, 0 to 1.

    The share is ours, whatever a caller's `traceparent` says: its flag is the caller's wish, and
    the platform's own often says no. What lies beneath a request goes with it.
    """

    def __init__(self, exporter: SpanExporter, ratio: float) -> None:
        share = RatioSampler(ratio)
        sampler = ParentBased(share, remote_parent_sampled=share, remote_parent_not_sampled=share)
        self.provider = TracerProvider(sampler=sampler)
        self.provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self.provider.get_tracer("chat")

    def start_request(self, name: str, headers: Mapping[str, str]) -> OpenTelemetrySpan:
        """The span of one request, beneath the one that its `traceparent` names.

        Not a server's span: the platform tells of every request already, and would count it twice.
        """
        above = TRACE_CONTEXT.extract(headers, Context())
        return OpenTelemetrySpan(self._tracer, self._tracer.start_span(name, above))


@dataclass(frozen=True, slots=True)
class OpenTelemetrySpan:
    """One of OpenTelemetry's spans, with the tracer that makes its children."""

    tracer: Tracer
    span: Given

    def start_child(self, name: str) -> OpenTelemetrySpan:
        """A piece of this piece, which begins now."""
        above = set_span_in_context(self.span, Context())
        return OpenTelemetrySpan(self.tracer, self.tracer.start_span(name, above))

    def set_attributes(self, facts: Attributes) -> None:
        """Say what is known of it."""
        self.span.set_attributes(facts)

    def add_event(self, name: str) -> None:
        """Something happened now."""
        self.span.add_event(name)

    def end(self, error: str = "") -> None:
        """It ends now, rightly or with the name of an error."""
        if error:
            self.span.set_attribute("error.type", error)
            self.span.set_status(Status(StatusCode.ERROR))
        self.span.end()
