package vipl

// BulkFrom has messages of size bytes and more sent as bulk.
func (n *NIC) BulkFrom(size uint32) { n.bulk.from = size }

// BulkHits returns how many frames have been received where they belong.
func (n *NIC) BulkHits() uint64 { return n.bulk.hits }
