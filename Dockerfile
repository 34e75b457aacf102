# Builds the binary, then an image with that, the C library and the certificates of public authorities: no shell, no
# package manager. It writes to /data alone: docker run --read-only --cap-drop=ALL --security-opt=no-new-privileges.

FROM rust:1-bookworm AS build
WORKDIR /src
COPY Cargo.toml Cargo.lock build.rs ./
# The options of SQLite.
COPY .cargo/config.toml .cargo/config.toml
# Cargo wants every target that the manifest names to be there.
COPY benches benches
COPY clients/rust clients/rust
COPY config config
COPY crates crates
COPY src src
# The server shows it at /docs.
COPY docs/api.md docs/api.md
RUN cargo build --profile dist --features otlp --locked && mkdir /empty

FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /src/target/dist/delay-queue /usr/local/bin/delay-queue
# A directory of the unprivileged user, for the embedded store.
COPY --from=build --chown=65532:65532 /empty /data
ENV DELAY_QUEUE__SERVER__LISTEN=0.0.0.0:9277 \
    DELAY_QUEUE__STORE__URL=file:/data
VOLUME /data
EXPOSE 9277
# The number of "nonroot", which a cluster can check without asking the image.
USER 65532:65532
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s CMD ["delay-queue", "health"]
ENTRYPOINT ["delay-queue"]
