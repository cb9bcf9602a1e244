package endpoint

// Requests poll too (AM2 reference, section 8), but not all of them. A poll sends
// what is corked, so one for each request of a stream would send each in a
// frame of its own, and who runs out of credits polls anyway. Those that come one
// by one poll each: to see which they are the clock is read at some of a stream,
// and, from where one has found that they do, at each.
const (
	pollEvery   = 64    // requests between polls at most
	pollLook    = 4     // at so many of a stream, twice, and so on, the clock is read
	pollSpacing = 4_000 // ns between requests that come one by one,
	pollPerByte = 1     // and for each byte that they have brought
	pollsMost   = 12    // requests so far apart are as long as there may be none
)

// pacing says when requests poll.
type pacing struct {
	asked    int   // requests since the last poll
	bytes    int64 // that they carried
	oneByOne bool  // as far as one has looked
	polled   int64 // when the last poll was, or before
	left     int64 // when the last request returned, while they come one by one
}

// due notes a request of size bytes and reports whether to look if it begins with a
// poll.
func (g *pacing) due(size int) bool {
	g.asked++
	g.bytes += int64(size)
	return g.oneByOne || g.asked >= pollLook && g.asked&(g.asked-1) == 0
}

// pollIfDue is the poll that a request begins with, if it is due.
func (n *Node) pollIfDue() error {
	g := &n.pacing
	now := n.way.Now()
	if g.oneByOne && now-g.left < pollSpacing {
		// It was the request before that took so long, which polled and went alone, and not
		// what the program did in between: this may be a stream.
		g.oneByOne, g.polled = false, g.left
		return nil
	}
	g.oneByOne = now-g.polled >= int64(min(g.asked, pollsMost))*pollSpacing+g.bytes*pollPerByte
	if !g.oneByOne && g.asked < pollEvery {
		return nil
	}
	again := g.oneByOne
	err := n.poll()
	g.oneByOne, g.polled = again, now
	return err
}

// looked notes a poll, after which requests may come as a stream.
func (g *pacing) looked() { g.asked, g.bytes, g.oneByOne = 0, 0, false }
