"""NDJSON in and out on one connection: lines of records come in while lines of answers go out."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from typing import Any

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from braided.serve.endpoint import NDJSON
from braided.serve.prediction_answers import PREDICT_CHUNK
from braided.serve.prediction_threads import PredictionThreads
from braided.serve.problems import HTTPProblem
from braided.serve.raw_records import RawRecordParser
from braided.serve.records import RecordParser, decode_json
from braided.serve.settings import Limits
from braided.serve.worker import Worker
from braided.serve.write_request import StreamBatches, WriteRequest

log = logging.getLogger("braided.serve")
#: Records learned by one commit, at most.
BATCH = 100
#: Batches of one stream that may be on their way through the journal.
_WINDOW = 16
#: Bytes of lines read before others get their turn; each turn costs a wait for Python's lock.
_TURN_BYTES = 2**13


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
    rest = bytearray()
    source = request.stream()
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
                yield whole
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


def line(answer: dict[str, Any]) -> bytes:
    """An answer as a line."""
    encoded: bytes = orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE)
    return encoded


async def learn(
    request: Request, worker: Worker, limits: Limits, client: str | None, sequence: int, stopping: asyncio.Event
) -> Response:
    """Learn a stream; one line of answer for each batch that is durable, and one with the problem if there is one.

    The first batch decides the status of the answer.
    """
    answers: asyncio.Queue[asyncio.Future[Any]] = asyncio.Queue(_WINDOW)
    taking = asyncio.create_task(_take(request, worker, limits, client, sequence, answers, stopping))
    try:
        first = await (await answers.get())
    except BaseException:
        taking.cancel()
        raise

    async def parts() -> AsyncGenerator[bytes, None]:
        answer = first
        try:
            while answer is not None:
                yield line(answer)
                answer = await (await answers.get())
        except HTTPProblem as problem:
            yield line({"problem": problem.document()})
        finally:
            taking.cancel()

    return StreamedAnswer(parts(), NDJSON, limits.request_seconds)


async def _take(
    request: Request,
    worker: Worker,
    limits: Limits,
    client: str | None,
    sequence: int,
    answers: asyncio.Queue[asyncio.Future[Any]],
    stopping: asyncio.Event,
) -> None:
    """Read the stream, and queue a future for each batch; the last one holds None, or the problem that ended it."""
    loop = asyncio.get_running_loop()
    end: asyncio.Future[Any] = loop.create_future()
    batches = StreamBatches()
    count = read = 0

    async def commit(parser: RecordParser | RawRecordParser) -> None:
        nonlocal sequence
        records = parser.done()
        future: asyncio.Future[Any] = loop.create_future()
        # After a batch that was refused, no one asks for the answers to those behind it.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        write = WriteRequest("learn", future, records, client, sequence, stream=batches)
        sequence += len(records)
        await _submit(worker, write, limits)
        await answers.put(future)

    def fresh() -> RecordParser | RawRecordParser:
        return worker.state.parser(True, limits)

    try:
        async with contextlib.aclosing(lines(request, limits, stopping)) as groups:
            async for group in groups:
                parser = fresh()
                for text in group:
                    if not text.strip():
                        continue
                    count += 1
                    _add(parser, text, count)
                    if len(parser) == BATCH:
                        await commit(parser)
                        parser = fresh()
                    read += len(text)
                    if read >= _TURN_BYTES:
                        read = 0
                        await asyncio.sleep(0)
                if len(parser):
                    await commit(parser)
        if count == 0:
            raise HTTPProblem(422, "the stream holds no record: send one per line")
        end.set_result(None)
    except HTTPProblem as problem:
        end.set_exception(problem)
    except ClientDisconnect:  # no one reads the answer
        end.set_result(None)
    except Exception:
        log.exception("model %s: a stream failed", worker.state.name)
        end.set_exception(HTTPProblem(500, "the service made a mistake: its log says more"))
    await answers.put(end)


def _add(parser: RecordParser | RawRecordParser, text: bytes, number: int) -> None:
    """Take in a line, or refuse it by its number."""
    try:
        parser.add(decode_json(text, "the line"))
    except HTTPProblem as problem:
        raise HTTPProblem(problem.status, f"line {number}: {problem.detail}") from None


async def _submit(worker: Worker, write: WriteRequest, limits: Limits) -> None:
    """Queue a batch, waiting for room: a stream is held back rather than refused."""
    deadline = asyncio.get_running_loop().time() + limits.request_seconds
    while True:
        try:
            worker.submit(write)
        except HTTPProblem as problem:
            if problem.status != 429 or asyncio.get_running_loop().time() > deadline:
                raise
            await asyncio.sleep(0.02)
        else:
            return


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

    async def answers() -> AsyncGenerator[bytes, None]:
        count = 0
        classes: list[Any] | None = None
        async for group in lines(request, limits, stopping):
            texts = [text for text in group if text.strip()]
            for start in range(0, len(texts), PREDICT_CHUNK):
                parser = worker.state.parser(False, limits)
                for text in texts[start : start + PREDICT_CHUNK]:
                    count += 1
                    _add(parser, text, count)
                known, found = await threads.chunk(worker, parser.done(), level)
                if not worker.state.regression and known != classes:
                    found[0]["classes"] = classes = known
                yield b"".join(line(answer) for answer in found)
                await asyncio.sleep(0)
        if count == 0:
            raise HTTPProblem(422, "the stream holds no record: send one per line")

    source = answers()
    first = await anext(source)

    async def parts() -> AsyncGenerator[bytes, None]:
        yield first
        try:
            async for part in source:
                yield part
        except HTTPProblem as problem:
            yield line({"problem": problem.document()})

    return StreamedAnswer(parts(), NDJSON, limits.request_seconds)
