package endpoint

// Some requests also poll (AM2 reference, section 8), but not all. A poll sends the batch, so if
// each request of a stream polled, each would travel in its own frame. A program without credits
// polls anyway. Single requests always poll. To recognize them, some requests of a stream read the
// clock. If one of these finds that requests are far apart, all later ones read the clock.
const (
	pollEvery   = 64    // maximum number of requests between polls
	pollLook    = 4     // the clock is read at this request of a stream, and each time the number has doubled
	pollSpacing = 4_000 // minimum ns for each request since the last poll, if requests are single
	pollPerByte = 1     // minimum ns for each byte that these requests carried
	pollsMost   = 12    // maximum number of requests that count for this minimum
)

// pacing decides when requests poll.
type pacing struct {
	asked    int   // requests since the last poll
	bytes    int64 // bytes that these requests carried
	oneByOne bool  // requests are single, as far as known
	polled   int64 // time of the last poll, or earlier
	left     int64 // when the last request returned, while requests are single
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
