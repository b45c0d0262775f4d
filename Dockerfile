# The command `orchestrator` as an unprivileged user. Mount, or copy in a further stage, your application into /app.

FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY orchestrator orchestrator
COPY migrations migrations
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
RUN useradd --system --no-create-home --home-dir /app --shell /usr/sbin/nologin orchestrator
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir /wheels/*.whl && rm -r /wheels
ENV PYTHONPATH=/app PYTHONUNBUFFERED=1
WORKDIR /app
USER orchestrator
ENTRYPOINT ["orchestrator"]
CMD ["--help"]
