# attnd: built in a stage that has the compilers, shipped in one that has only what it links to.
#
# Nothing in the image needs a name for its user, a home, or a place to write: any uid will do and
# the root may be read-only. Kernels for the CPU are chosen when the daemon starts, so one image
# fits every x86-64 and arm64. Labels and `attnd version` take the two arguments:
#
#   docker build --build-arg REVISION="$(git describe --always --dirty)" -t attnd .

FROM debian:bookworm-slim AS build
WORKDIR /src
COPY deploy/install-deps.sh deploy/
RUN apt-get update -qq \
 && apt-get install -y -qq --no-install-recommends make \
 && deploy/install-deps.sh
COPY . .
ARG VERSION=0.1.0
ARG REVISION=unknown
RUN make build MODE=release VERSION="$VERSION" REVISION="$REVISION"

FROM debian:bookworm-slim
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        libjansson4 libmicrohttpd12 libopenblas0-pthread libuv1 \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build /src/build/release/attnd /usr/local/bin/attnd

ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="attnd" \
      org.opencontainers.image.description="Attention over HTTP, on a CPU" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.base.name="debian:bookworm-slim"

# A loopback address would answer nobody outside. OpenBLAS would start a thread for every core when
# it is loaded, before attnd can tell it that it has workers of its own.
ENV ATTND_LISTEN=0.0.0.0:8080 \
    OPENBLAS_NUM_THREADS=1
EXPOSE 8080
USER 10001:10001
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s --retries=3 \
    CMD ["attnd", "healthcheck", "http://127.0.0.1:8080/readyz"]
ENTRYPOINT ["/usr/local/bin/attnd"]
CMD ["serve"]
