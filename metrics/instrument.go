package metrics

import "os"

// Instrument makes what c watches visible until stop is called: DumpOnQuit on the standard
// error, AnswerAgent, and Serve at addr unless addr is empty.
func (c *Collector) Instrument(addr string) (stop func(), err error) {
	var server *Server
	if addr != "" {
		if server, err = Serve(addr, c); err != nil {
			return nil, err
		}
	}
	dumps, answers := c.DumpOnQuit(os.Stderr), c.AnswerAgent()
	return func() {
		answers()
		dumps()
		if server != nil {
			server.Close()
		}
	}, nil
}
