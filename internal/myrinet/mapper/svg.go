package mapper

import (
	"fmt"
	"html"
	"slices"
	"strings"

	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
)

// Sizes of the picture, in its units.
const (
	hostGap   = 16 // distance between hosts
	switchGap = 58 // least distance between switches
	boxWide   = 46
	boxHigh   = 20
	layerGap  = 100
	margin    = 30
	hostDrop  = 46 // distance from a switch to its hosts
	letter    = 6  // approximate width of a letter in a label
)

// SVG draws a topology in the style of figure 3 of VNT: hosts at the bottom, above them the
// switches that they are plugged into, and above these the other switches, the higher the farther
// they are from all hosts. A cable between two switches of the same height is an arc below them.
// The picture depends only on the topology.
func SVG(t *topology.Topology, title string) string {
	d := layOut(t)
	var b strings.Builder
	wide, high := max(d.wide, (letter+1)*len(title))+2*margin, d.high+2*margin
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif">`+"\n", wide, high, wide, high)
	fmt.Fprintf(&b, "<title>%s</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n", html.EscapeString(title))
	fmt.Fprintf(&b, `<text x="%d" y="18" font-size="12">%s</text>`+"\n", margin, html.EscapeString(title))
	b.WriteString(`<g stroke="#5b7083" stroke-width="1.2" fill="none">` + "\n")
	for _, c := range t.Cables {
		d.cable(&b, c)
	}
	b.WriteString("</g>\n")
	for i, name := range t.Switches {
		p := d.switches[i]
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" rx="3" fill="#dbe7f3" stroke="#34495e"/>`, p.x-boxWide/2, p.y-boxHigh/2, boxWide, boxHigh)
		fmt.Fprintf(&b, `<text x="%d" y="%d" font-size="10" text-anchor="middle">%s</text>`+"\n", p.x, p.y+4, html.EscapeString(name))
	}
	for i, name := range t.Hosts {
		p := d.hosts[i]
		fmt.Fprintf(&b, `<circle cx="%d" cy="%d" r="4" fill="#e08e2b" stroke="#7a4a10"/>`, p.x, p.y)
		fmt.Fprintf(&b, `<text transform="translate(%d %d) rotate(90)" font-size="9">%s</text>`+"\n", p.x-3, p.y+8, html.EscapeString(name))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

type point struct{ x, y int }

// drawing holds the positions of hosts and switches.
type drawing struct {
	t               *topology.Topology
	switches, hosts []point
	wide, high      int
	layer           []int   // by switch: number of cables to the nearest switch that has hosts
	rows            [][]int // switches of each layer, from left to right
	next            [][]topology.Plug
}

func layOut(t *topology.Topology) *drawing {
	d := &drawing{t: t, switches: make([]point, len(t.Switches)), hosts: make([]point, len(t.Hosts)), next: t.Neighbors()}
	d.findLayers()
	d.sortRows()
	top := len(d.rows) - 1
	for k, row := range d.rows {
		at := 0
		for _, s := range row {
			w := d.width(s)
			d.switches[s] = point{at + w/2, (top - k) * layerGap}
			at += w
		}
		d.wide = max(d.wide, at)
	}
	for _, row := range d.rows {
		used := 0
		for _, s := range row {
			used += d.width(s)
		}
		gap := (d.wide - used) / (len(row) + 1)
		for i, s := range row {
			d.switches[s].x += margin + gap*(i+1)
			d.switches[s].y += margin + boxHigh
		}
	}
	d.placeHosts(margin + boxHigh + max(top, 0)*layerGap + hostDrop)
	return d
}

// width is the room that a switch needs in its row.
func (d *drawing) width(s int) int {
	n := 0
	for _, p := range d.next[s] {
		if p.Host {
			n++
		}
	}
	return max(switchGap, (n+1)*hostGap)
}

func (d *drawing) findLayers() {
	d.layer = make([]int, len(d.next))
	var queue []int
	for s := range d.next {
		d.layer[s] = -1
		if slices.ContainsFunc(d.next[s], func(p topology.Plug) bool { return p.Host }) {
			d.layer[s] = 0
			queue = append(queue, s)
		}
	}
	if len(queue) == 0 && len(d.next) > 0 {
		d.layer[0] = 0
		queue = append(queue, 0)
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, p := range d.next[queue[0]] {
			if !p.Host && p.Node >= 0 && d.layer[p.Node] < 0 {
				d.layer[p.Node] = d.layer[queue[0]] + 1
				queue = append(queue, p.Node)
			}
		}
	}
	for s := range d.layer {
		l := max(d.layer[s], 0) // in a part without hosts
		d.layer[s] = l
		for len(d.rows) <= l {
			d.rows = append(d.rows, nil)
		}
		d.rows[l] = append(d.rows[l], s)
	}
}

// sortRows moves each switch to the middle of its neighbours, up and down the rows several times,
// to reduce the crossings of cables.
func (d *drawing) sortRows() {
	place := make([]float64, len(d.next))
	spread := func(row []int) {
		for i, s := range row {
			place[s] = (float64(i) + 0.5) / float64(len(row))
		}
	}
	for i, s := range d.depthFirst() {
		place[s] = float64(i)
	}
	byPlace := func(row []int) {
		slices.SortStableFunc(row, func(a, b int) int {
			switch {
			case place[a] < place[b]:
				return -1
			case place[a] > place[b]:
				return 1
			}
			return a - b
		})
		spread(row)
	}
	for _, row := range d.rows {
		byPlace(row)
	}
	for sweep := range 16 {
		for k := range d.rows {
			if sweep%2 == 1 {
				k = len(d.rows) - 1 - k
			}
			row := d.rows[k]
			middles := make([]float64, len(row))
			for i, s := range row {
				middles[i] = d.middle(s, place)
			}
			for i, s := range row {
				place[s] = middles[i]
			}
			byPlace(row)
		}
	}
}

// depthFirst returns the switches in an order in which neighbours are near each other.
func (d *drawing) depthFirst() (order []int) {
	seen := make([]bool, len(d.next))
	var visit func(s int)
	visit = func(s int) {
		seen[s] = true
		order = append(order, s)
		for _, p := range d.next[s] {
			if !p.Host && p.Node >= 0 && !seen[p.Node] {
				visit(p.Node)
			}
		}
	}
	for s := range d.next {
		if !seen[s] {
			visit(s)
		}
	}
	return order
}

// middle returns the mean position of the switches in other rows that a switch is joined to.
func (d *drawing) middle(s int, place []float64) float64 {
	sum, n := 0.0, 0.0
	for _, p := range d.next[s] {
		if !p.Host && p.Node >= 0 && d.layer[p.Node] != d.layer[s] {
			sum += place[p.Node]
			n++
		}
	}
	if n == 0 {
		return place[s]
	}
	return sum / n
}

// placeHosts puts hosts below their switches, and hosts without a switch on the right.
func (d *drawing) placeHosts(y int) {
	placed := make([]bool, len(d.hosts))
	for s := range d.next {
		var at []int
		for _, p := range d.next[s] {
			if p.Host {
				at = append(at, p.Node)
			}
		}
		for i, h := range at {
			d.hosts[h] = point{d.switches[s].x + (2*i-len(at)+1)*hostGap/2, y}
			placed[h] = true
		}
	}
	for h := range d.hosts {
		if !placed[h] {
			d.wide += 4 * hostGap
			d.hosts[h] = point{margin + d.wide - 2*hostGap, y}
		}
	}
	longest := 0
	for _, name := range d.t.Hosts {
		longest = max(longest, len(name))
	}
	d.high = y + 8 + letter*longest - margin
}

func (d *drawing) at(p topology.Plug) point {
	if p.Host {
		return d.hosts[p.Node]
	}
	return d.switches[p.Node]
}

// cable draws a cable. Parallel cables lie next to each other.
func (d *drawing) cable(b *strings.Builder, c topology.Join) {
	p, q := d.at(c.A), d.at(c.B)
	if !c.A.Host {
		p.x += d.shift(c.A)
	}
	if !c.B.Host {
		q.x += d.shift(c.B)
	}
	if p.y == q.y && !c.A.Host && !c.B.Host {
		fmt.Fprintf(b, `<path d="M%d %d Q%d %d %d %d"/>`+"\n", p.x, p.y, (p.x+q.x)/2, p.y+layerGap/2, q.x, q.y)
		return
	}
	fmt.Fprintf(b, `<path d="M%d %d L%d %d"/>`+"\n", p.x, p.y, q.x, q.y)
}

// shift returns the horizontal distance of a port from the middle of its switch.
func (d *drawing) shift(p topology.Plug) int {
	return (2*p.Port - d.t.Ports + 1) * (boxWide - 8) / (2 * d.t.Ports)
}
