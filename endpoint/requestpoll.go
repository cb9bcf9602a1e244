package endpoint

// Some requests also poll (AM2 reference, section 8), but not all. A poll sends the batch. So if
// each request of a stream polled, each would travel in its own frame. A program without credits
// polls anyway. Single requests poll every time. To recognize them, some requests of a stream read
// the clock. Once one finds that requests are apart, all read it.
const (
	pollEvery   = 64    // requests between polls at most
	pollLook    = 4     // at so many of a stream, twice, and so on, the clock is read
	pollSpacing = 4_000 // ns between requests that come one by one,
	pollPerByte = 1     // and for each byte that they have brought
	pollsMost   = 12    // requests so far apart are as long as there may be none
)

// pacing decides when requests poll.
type pacing struct {
	asked    int   // requests since the last poll
	bytes    int64 // that they carried
	oneByOne bool  // as far as one has looked
	polled   int64 // when the last poll was, or before
	left     int64 // when the last request returned, while they come one by one
}

// due records a request of size bytes and reports whether it should poll first.
func (g *pacing) due(size int) bool {
	g.asked++
	g.bytes += int64(size)
	return g.oneByOne || g.asked >= pollLook && g.asked&(g.asked-1) == 0
}

// pollIfDue polls at the start of a request, if a poll is due.
func (n *Node) pollIfDue() error {
	g := &n.pacing
	now := n.way.Now()
	if g.oneByOne && now-g.left < pollSpacing {
		// The time went into the previous request, which polled and was sent alone, and not into
		// the program's own work: this may be a stream.
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

// looked records a poll, after which requests may form a stream.
func (g *pacing) looked() { g.asked, g.bytes, g.oneByOne = 0, 0, false }
