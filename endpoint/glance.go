package endpoint

// Requests poll too (AM2 reference, section 8), but not all of them. A poll sends
// what was gathered, so one for each request of a stream would send each in a
// frame of its own, and who runs out of credits polls anyway. Those that come one
// by one poll each: to see which they are the clock is read at some of a stream,
// and, from where one has found that they do, at each.
const (
	glanceEvery   = 64    // requests between polls at most
	glanceLook    = 4     // at so many of a stream, twice, and so on, the clock is read
	glanceSpacing = 4_000 // ns between requests that come one by one,
	glancePerByte = 1     // and for each byte that they have brought
	glanceMost    = 12    // requests so far apart are as long as there may be none
)

// glances says when requests poll.
type glances struct {
	asked    int   // requests since the last poll
	bytes    int64 // that they carried
	oneByOne bool  // as far as one has looked
	polled   int64 // when the last poll was, or before
}

// due notes a request of size bytes and reports whether to look if it begins with a
// poll.
func (g *glances) due(size int) bool {
	g.asked++
	g.bytes += int64(size)
	return g.oneByOne || g.asked >= glanceLook && g.asked&(g.asked-1) == 0
}

// glance is the poll that a request begins with, if it is due.
func (n *Node) glance() error {
	g := &n.glances
	now := n.way.now()
	g.oneByOne = now-g.polled >= int64(min(g.asked, glanceMost))*glanceSpacing+g.bytes*glancePerByte
	if !g.oneByOne && g.asked < glanceEvery {
		return nil
	}
	again := g.oneByOne
	err := n.poll()
	g.oneByOne, g.polled = again, now
	return err
}

// looked notes a poll, after which requests may come as a stream.
func (g *glances) looked() { g.asked, g.bytes, g.oneByOne = 0, 0, false }
