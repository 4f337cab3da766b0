# The service, with its kernels compiled: `docker build -t braided .`, then docs/docker.md.
FROM python:3.12-slim AS build
WORKDIR /checkout
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
# An image keeps times in whole seconds, and Numba and Python tell by a source's time whether what they compiled is
# still its: so all sources get such a time before anything is compiled.
RUN python -m venv /opt/braided \
    && /opt/braided/bin/pip install --no-cache-dir --no-compile '.[serve]' \
    && find /opt/braided -name '*.py' -exec touch -d '2026-01-01T00:00:00Z' {} + \
    && /opt/braided/bin/python -m compileall -q /opt/braided/lib
ENV NUMBA_CACHE_DIR=/opt/kernels
RUN /opt/braided/bin/braided warm-up

FROM python:3.12-slim
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin braided \
    && mkdir /state && chown braided /state
COPY --from=build /opt/braided /opt/braided
# Its user's own: on a processor of another kind than the builder's, kernels are compiled anew and kept there.
COPY --from=build --chown=10001 /opt/kernels /opt/kernels
ENV PATH=/opt/braided/bin:$PATH NUMBA_CACHE_DIR=/opt/kernels PYTHONUNBUFFERED=1
USER 10001
VOLUME /state
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=180s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
# Others can reach it, so it starts only with tokens; the shell form would not hand on the signal that ends it in order.
CMD ["braided", "serve", "--dir", "/state", "--host", "0.0.0.0", "--token-file", "/run/secrets/tokens"]
