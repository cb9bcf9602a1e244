package vipl

import "github.com/bobnet-go/bobnet/vipl/internal/handshake"

// MaxConnData is the maximum length, in bytes, of the private data in a connection
// request.
const MaxConnData = handshake.MaxData

// handshakeTerms returns the attributes that the peer learns in the handshake.
func (a *Attributes) handshakeTerms() handshake.Terms {
	return handshake.Terms{
		Reliability: a.Reliability, MaxTransferSize: a.MaxTransferSize, QoS: a.QoS, EnableRDMAWrite: a.EnableRDMAWrite,
		EnableRDMARead: a.EnableRDMARead, ReadDepth: a.ReadDepth, WholeCRC: a.WholeCRC,
	}
}

// attributesOf returns the attributes that the peer has sent. The others are zero.
func attributesOf(t *handshake.Terms) Attributes {
	return Attributes{
		Reliability: t.Reliability, MaxTransferSize: t.MaxTransferSize, QoS: t.QoS, EnableRDMAWrite: t.EnableRDMAWrite,
		EnableRDMARead: t.EnableRDMARead, ReadDepth: t.ReadDepth, WholeCRC: t.WholeCRC,
	}
}

// RemoteAttributes returns the attributes of the peer's VI at the time when the peer connected
// (RemoteViAttribs of VipConnectRequest, VipConnectPeerDone and VipConnectPeerWait). These are
// Reliability, MaxTransferSize, QoS, EnableRDMAWrite, EnableRDMARead, ReadDepth and WholeCRC.
// WholeCRC is also set if the peer's link has no protection of its own. The other fields are zero,
// because they are local to the peer. All are zero until the peer has answered. The values remain
// after the end of the connection, until the next attempt.
func (v *VI) RemoteAttributes() Attributes {
	v.nic.eng.Lock()
	defer v.nic.eng.Unlock()
	return attributesOf(&v.side.PeerTerms)
}
