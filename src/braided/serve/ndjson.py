"""NDJSON in and out on one connection: lines of records come in while lines of answers go out."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator
from typing import Any

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from braided.serve.operations import NDJSON
from braided.serve.predictions import PREDICT_CHUNK, PredictionThreads
from braided.serve.problems import HTTPProblem
from braided.serve.records import RecordParser, decode_json
from braided.serve.requests import StreamBatches, WriteRequest
from braided.serve.settings import Limits
from braided.serve.worker import Worker

log = logging.getLogger("braided.serve")
#: Records learned by one commit, at most; and batches of one stream that may be on their way through the log.
BATCH, _WINDOW = 100, 16
#: Bytes of lines read before others get their turn; each turn costs a wait for Python's lock.
_TURN_BYTES = 2**13
_EMPTY = "the stream holds no record: send one per line"


class StreamedAnswer(Response):
    """An answer whose body is sent as it comes.

    Unlike Starlette's, it leaves the request's body alone, which is still being read, and it gives up on a client that
    takes nothing for `seconds`.
    """

    def __init__(self, parts: AsyncGenerator[bytes, None], media_type: str, seconds: float) -> None:
        super().__init__(media_type=media_type)
        self.parts = parts
        self.seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the parts."""
        headers = [(key, value) for key, value in self.raw_headers if key != b"content-length"]
        await send({"type": "http.response.start", "status": self.status_code, "headers": headers})
        async with contextlib.aclosing(self.parts) as parts:
            async for part in parts:
                try:
                    async with asyncio.timeout(self.seconds):
                        await send({"type": "http.response.body", "body": part, "more_body": True})
                except TimeoutError:
                    return
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def lines(request: Request, limits: Limits, stopping: asyncio.Event) -> AsyncGenerator[list[bytes], None]:
    """The body's lines, as many as came at once.

    A line has to be complete in time from its first byte on: bytes alone keep no stream alive. Between two lines a
    stream may be silent for as long.
    """
    rest, source = bytearray(), request.stream()
    clock = asyncio.get_running_loop().time
    stop = asyncio.ensure_future(stopping.wait())
    since = clock()
    try:
        while (part := await _part(source, limits, stop, since + limits.request_seconds - clock())) is not None:
            *whole, unfinished = part.split(b"\n")
            if whole:
                whole[0] = bytes(rest) + whole[0]
                rest.clear()
            if not rest:
                since = clock()
            rest += unfinished
            if len(rest) > limits.line_bytes or any(len(line) > limits.line_bytes for line in whole):
                raise HTTPProblem(413, f"a line is longer than {limits.line_bytes} bytes: send less at a time")
            if whole:
                yield [line for line in whole if line.strip()]
                since = clock()  # the time that others took is not the client's
    finally:
        stop.cancel()
    if rest.strip():
        yield [bytes(rest)]


async def _part(
    source: AsyncGenerator[bytes, None], limits: Limits, stop: asyncio.Future[Any], seconds: float
) -> bytes | None:
    """A body's next part; None at its end."""
    following = asyncio.ensure_future(anext(source, None))
    try:
        await asyncio.wait({following, stop}, timeout=max(0.0, seconds), return_when=asyncio.FIRST_COMPLETED)
        if not following.done():
            if stop.done():
                raise HTTPProblem(503, "the service is stopping: send the rest again later")
            raise HTTPProblem(408, f"no line was complete within {limits.request_seconds:g} s: send the rest again")
        return following.result()
    finally:
        following.cancel()


def _line(answer: dict[str, Any]) -> bytes:
    encoded: bytes = orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE)
    return encoded


def _add(parser: RecordParser, text: bytes, number: int) -> None:
    """Take in a line, or refuse it by its number."""
    try:
        parser.add(decode_json(text, "the line"))
    except HTTPProblem as problem:
        raise HTTPProblem(problem.status, f"line {number}: {problem.detail}") from None


async def _answered(source: AsyncGenerator[bytes, None], limits: Limits) -> Response:
    """Parts as an answer: the first one decides its status, and a problem after that is its last line."""
    first = await anext(source, None)
    if first is None:
        raise ClientDisconnect

    async def parts() -> AsyncGenerator[bytes, None]:
        async with contextlib.aclosing(source):
            yield first
            try:
                async for part in source:
                    yield part
            except HTTPProblem as problem:
                yield _line({"problem": problem.document()})

    return StreamedAnswer(parts(), NDJSON, limits.request_seconds)


async def learn(
    request: Request, worker: Worker, limits: Limits, client: str | None, sequence: int, stopping: asyncio.Event
) -> Response:
    """Learn a stream; one line of answer for each batch that is durable."""
    answers: asyncio.Queue[asyncio.Future[Any]] = asyncio.Queue(_WINDOW)
    batches = _Batches(worker, limits, client, sequence, answers)

    async def parts() -> AsyncGenerator[bytes, None]:
        taking = asyncio.create_task(batches.take(request, stopping))
        try:
            while (answer := await (await answers.get())) is not None:
                yield _line(answer)
        finally:
            taking.cancel()

    return await _answered(parts(), limits)


class _Batches:
    """A stream of records on their way into the log: a future for each batch goes into a queue.

    The last future holds None, or the problem that ended the stream.
    """

    def __init__(
        self,
        worker: Worker,
        limits: Limits,
        client: str | None,
        sequence: int,
        answers: asyncio.Queue[asyncio.Future[Any]],
    ) -> None:
        self.worker = worker
        self.limits = limits
        self.client = client
        self.sequence = sequence
        self.answers = answers
        self.stream = StreamBatches()

    async def take(self, request: Request, stopping: asyncio.Event) -> None:
        """Read the stream to its end."""
        end: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        try:
            await self._take(request, stopping)
            end.set_result(None)
        except HTTPProblem as problem:
            end.set_exception(problem)
        except ClientDisconnect:  # no one reads the answer
            end.set_result(None)
        except Exception:
            log.exception("model %s: a stream failed", self.worker.state.name)
            end.set_exception(HTTPProblem(500, "the service made a mistake: its log says more"))
        await self.answers.put(end)

    async def _take(self, request: Request, stopping: asyncio.Event) -> None:
        count = read = 0
        async with contextlib.aclosing(lines(request, self.limits, stopping)) as groups:
            async for group in groups:
                parser = self.worker.state.parser(True, self.limits)
                for text in group:
                    count += 1
                    _add(parser, text, count)
                    if len(parser) == BATCH:
                        await self._submit(parser)
                        parser = self.worker.state.parser(True, self.limits)
                    read += len(text)
                    if read >= _TURN_BYTES:
                        read = 0
                        await asyncio.sleep(0)
                if len(parser):
                    await self._submit(parser)
        if count == 0:
            raise HTTPProblem(422, _EMPTY)

    async def _submit(self, parser: RecordParser) -> None:
        """Queue a batch, waiting for room: a stream is held back rather than refused."""
        loop = asyncio.get_running_loop()
        records, future = parser.done(), loop.create_future()
        # After a batch that was refused, no one asks for the answers to those behind it.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        write = WriteRequest("learn", future, records, self.client, self.sequence, time=time.time(), stream=self.stream)
        self.sequence += len(records)
        deadline = loop.time() + self.limits.request_seconds
        while True:
            try:
                self.worker.submit(write)
                break
            except HTTPProblem as problem:
                if problem.status != 429 or loop.time() > deadline:
                    raise
                await asyncio.sleep(0.02)
        await self.answers.put(future)


async def predict(
    request: Request,
    worker: Worker,
    threads: PredictionThreads,
    limits: Limits,
    stopping: asyncio.Event,
    level: float | None = None,
) -> Response:
    """Predict a stream: one line of answer for each record, with the classes in the first and where they change.

    With a level, each says how sure it is.
    """

    async def parts() -> AsyncGenerator[bytes, None]:
        count, classes = 0, None
        async for texts in lines(request, limits, stopping):
            for start in range(0, len(texts), PREDICT_CHUNK):
                parser = worker.state.parser(False, limits)
                for text in texts[start : start + PREDICT_CHUNK]:
                    count += 1
                    _add(parser, text, count)
                known, found = await threads.chunk(worker, parser.done(), level)
                if not worker.state.regression and known != classes:
                    found[0]["classes"] = classes = known
                yield b"".join(map(_line, found))
                await asyncio.sleep(0)
        if count == 0:
            raise HTTPProblem(422, _EMPTY)

    return await _answered(parts(), limits)
