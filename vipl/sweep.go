package vipl

// sweep looks at the interface and has each connection ask after its peer.
func (n *NIC) sweep() {
	n.checkLink()
	if n.health.checks && n.health.dead == nil { // who waits for a request, or is about to make one, has no other way to know
		n.conns.SweepFrom(n.conns.Now)
	}
	for _, v := range n.ports.vis {
		if v != nil {
			v.conn.KeepAlive()
		}
	}
}
