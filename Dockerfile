# The service: `docker build -t braided .`, then docs/docker.md.
FROM python:3.12-slim AS build
WORKDIR /checkout
COPY pyproject.toml README.md LICENSE hatch_build.py build_kernels.py ./
COPY src ./src
RUN python -m venv /opt/braided \
    && /opt/braided/bin/pip install --no-cache-dir '.[serve]'

FROM python:3.12-slim
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin braided \
    && mkdir /state && chown braided /state
COPY --from=build /opt/braided /opt/braided
ENV PATH=/opt/braided/bin:$PATH PYTHONUNBUFFERED=1
USER 10001
VOLUME /state
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
# Others can reach it, so it starts only with tokens; the shell form would not hand on the signal that ends it in order.
CMD ["braided", "serve", "--dir", "/state", "--host", "0.0.0.0", "--token-file", "/run/secrets/tokens"]
