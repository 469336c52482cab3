#!/usr/bin/env bash
# Raw images to a trained model, on any machine: draws a small set, shards it, trains on it. Everything lies in demo/.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
install ''

demo="${1:-demo}"
if [ -e "$demo" ]; then
    [ -e "$demo/.made-by-demo" ] || fail "$demo exists and is not from this script; name another folder: bash scripts/demo.sh FOLDER"
    rm -r "$demo"
fi
mkdir -p "$demo"
touch "$demo/.made-by-demo"

echo "== dataprep sample $demo/raw"
.venv/bin/dataprep sample "$demo/raw"
echo "== dataprep shard $demo/raw $demo/dataset"
.venv/bin/dataprep shard "$demo/raw" "$demo/dataset"
echo "== dataprep verify $demo/dataset"
.venv/bin/dataprep verify "$demo/dataset"
echo "== trainer run $demo/dataset --epochs 8 --out $demo/run"
.venv/bin/trainer run "$demo/dataset" --epochs 8 --out "$demo/run"

cat <<END

What lies where:
  $demo/raw       the raw images, one folder per class
  $demo/dataset   the sealed MindRecord set: dataset.json, shards with their indexes, rejects.jsonl
  $demo/run       best.ckpt, last.ckpt, config.json, metrics.jsonl
Next: .venv/bin/dataprep inspect $demo/dataset --row 0
      .venv/bin/trainer eval $demo/run $demo/dataset
      .venv/bin/trainer doctor $demo/dataset
      .venv/bin/python -m pip install jinja2 matplotlib      then: .venv/bin/dataprep report $demo/dataset
                                                            and:  .venv/bin/trainer report $demo/run
END
