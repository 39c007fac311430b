# One image for every process; the command selects it, `gpuruntime manager` by default.
FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml setup.cfg README.md LICENSE ./
COPY hack/constraints.txt hack/
COPY gpuruntime gpuruntime
# The image has no pip. Bytecode is compiled here, because its root file system is read-only.
RUN python -m venv --without-pip /opt/gpuruntime \
 && python -m pip --python /opt/gpuruntime install --no-cache-dir --compile --constraint hack/constraints.txt '.[access,fast,serverless]'

FROM python:3.13-slim
COPY --from=build /opt/gpuruntime /opt/gpuruntime
ENV PATH=/opt/gpuruntime/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
EXPOSE 8080 8081 8082 8083 8090
ENTRYPOINT ["gpuruntime"]
CMD ["manager", "--http-addr", ":8080", "--kube-mode", "required", "--token-review"]
