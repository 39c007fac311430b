# One image for every process; the command chooses which: `gpuruntime manager` unless told otherwise.
FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml setup.cfg README.md LICENSE ./
COPY hack/constraints.txt hack/
COPY gpuruntime gpuruntime
# The image needs no pip, and writes no bytecode later: its root is read-only.
RUN python -m venv --without-pip /opt/gpuruntime \
 && python -m pip --python /opt/gpuruntime install --no-cache-dir --compile --constraint hack/constraints.txt '.[fast]'

FROM python:3.13-slim
COPY --from=build /opt/gpuruntime /opt/gpuruntime
ENV PATH=/opt/gpuruntime/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
EXPOSE 8080 8081 8082
ENTRYPOINT ["gpuruntime"]
CMD ["manager", "--http-addr", ":8080", "--kube-mode", "required", "--token-review"]
