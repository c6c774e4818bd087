#!/bin/sh
# Renders the chart to deploy/kubernetes (or the folder given), by helm itself. Run it after every change of the chart.
set -eu
here=$(dirname "$0")
out=${1:-$here/../kubernetes}
helm=${HELM:-helm}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$helm" template quire "$here/quire" --namespace quire --output-dir "$work/keda" >/dev/null
"$helm" template quire "$here/quire" --namespace quire --set scaling.kind=hpa --output-dir "$work/hpa" >/dev/null
cp "$work"/keda/quire/templates/*.yaml "$work/hpa/quire/templates/scaling-hpa.yaml" "$out/"
