// Lights the chain that made the picked op start when it did, as `ppsim explain` tells it, and writes it down.
// `ops` and `transfers` are the sources of the bars. A link's number is its place among the ops or, from `count` on,
// among the transfers behind them; `first` is the link before an op's start, `before` the one before a link itself.
const picked = ops.selected.indices
if (picked.length == 0) {
  transfers.selected.indices = []
  told.text = hint
} else if (picked.length == 1) {
  const op = picked[0], lit = [op], sent = [], links = []
  const shown = (time) => `${parseFloat(Number(time).toPrecision(7))} ${unit}`
  for (let link = ops.data.first[op]; link >= 0;) {
    if (link < count) {
      const {name, rank, left, right, before} = ops.data
      lit.push(link)
      links.push(`${name[link]} on rank ${rank[link]}: ${shown(left[link])} to ${shown(right[link])}`)
      link = before[link]
    } else {
      const place = link - count, {name, src, dst, start, arrive, before} = transfers.data
      const what = src[place] == dst[place] ? `gradient sync of rank ${src[place]}`
        : `output of ${name[place]}, rank ${src[place]} to ${dst[place]}`
      sent.push(place)
      links.push(`${what}: ${shown(start[place])} to ${shown(arrive[place])}`)
      link = before[place]
    }
  }
  const {name, rank, left} = ops.data
  const because = links.map((link, place) => (place == 0 ? "because of " : "after ") + link)
  told.text = [`${name[op]} on rank ${rank[op]} started at ${shown(left[op])}`,
    ...(links.length > 0 ? because : ["nothing held it that is known"])].join("\n")
  transfers.selected.indices = sent
  ops.selected.indices = lit
}
