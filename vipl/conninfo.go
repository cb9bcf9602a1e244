package vipl

import "github.com/bobnet-go/bobnet/vipl/internal/handshake"

// MaxConnData is the most private data, in bytes, that goes with a connection request.
const MaxConnData = handshake.MaxData

// handshakeTerms returns the attributes that the peer learns in the handshake.
func (a *Attributes) handshakeTerms() handshake.Terms {
	return handshake.Terms{
		Reliability: a.Reliability, MaxTransferSize: a.MaxTransferSize, QoS: a.QoS, EnableRDMAWrite: a.EnableRDMAWrite,
		EnableRDMARead: a.EnableRDMARead, ReadDepth: a.ReadDepth, WholeCRC: a.WholeCRC,
	}
}

// attributesOf returns the attributes that a peer has told of. The others are zero.
func attributesOf(t *handshake.Terms) Attributes {
	return Attributes{
		Reliability: t.Reliability, MaxTransferSize: t.MaxTransferSize, QoS: t.QoS, EnableRDMAWrite: t.EnableRDMAWrite,
		EnableRDMARead: t.EnableRDMARead, ReadDepth: t.ReadDepth, WholeCRC: t.WholeCRC,
	}
}

// RemoteAttributes returns the attributes of the peer's VI, as they were when
// the peer connected (RemoteViAttribs of VipConnectRequest, VipConnectPeerDone
// and VipConnectPeerWait): Reliability, MaxTransferSize, QoS, EnableRDMAWrite,
// EnableRDMARead, ReadDepth and WholeCRC, which is set, too, if nothing protects the
// peer's link. The others concern nobody else and are zero, as all are before the
// peer has answered. They stay known when the connection has ended, until the next
// attempt.
func (v *VI) RemoteAttributes() Attributes {
	v.nic.eng.Lock()
	defer v.nic.eng.Unlock()
	return attributesOf(&v.side.PeerTerms)
}
