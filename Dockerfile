# The command `orchestrator` as an unprivileged user. Mount, or copy in a further stage, your application into /app.

FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY orchestrator orchestrator
COPY orchestrator_command.py ./
COPY migrations migrations
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
# By number: from a name Kubernetes cannot tell that it is not root (runAsNonRoot).
RUN useradd --system --uid 10001 --no-create-home --home-dir /app --shell /usr/sbin/nologin orchestrator
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir /wheels/*.whl && rm -r /wheels
# The process writes no files, so the file system may be read-only.
ENV PYTHONPATH=/app PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /app
USER 10001
ENTRYPOINT ["orchestrator"]
CMD ["--help"]
