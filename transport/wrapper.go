package transport

// Wrapper is implemented by links that wrap another link, such as those of packages fault, trace,
// pcap and host.
type Wrapper interface {
	Link

	// Unwrap returns the wrapped link.
	Unwrap() Link
}

// As returns the outermost T among link and the links that it wraps, and reports whether there is
// one. It gives access to features that only one kind of link has, such as the snapshot of a card.
func As[T any](link Link) (found T, ok bool) {
	for link != nil {
		if found, ok = link.(T); ok {
			return found, true
		}
		w, wraps := link.(Wrapper)
		if !wraps {
			break
		}
		link = w.Unwrap()
	}
	return found, false
}
