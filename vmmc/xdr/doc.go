// Package xdr encodes and decodes External Data Representation, RFC 4506: the form in
// which ONC RPC (RFC 5531) carries arguments and results.
//
// An Encoder appends items to a slice of the caller's; a Decoder takes items from a
// message. Both look at no type at run time: the program, or code that was generated
// for it, calls one method for each item, in the order of the declaration. The section
// numbers are those of RFC 4506.
//
//	XDR                       section  Encoder             Decoder              Go
//	int                           4.1  Int                 Int                  int32
//	unsigned int                  4.2  Uint                Uint                 uint32
//	enum                          4.3  Enum                Enum                 int32
//	bool                          4.4  Bool                Bool                 bool
//	hyper                         4.5  Hyper               Hyper                int64
//	unsigned hyper                4.5  Uhyper              Uhyper               uint64
//	float                         4.6  Float               Float                float32
//	double                        4.7  Double              Double               float64
//	quadruple                     4.8  Quadruple           Quadruple            Quadruple
//	opaque x[n]                   4.9  FixedOpaque         FixedOpaque, -View   []byte
//	opaque x<m>                  4.10  Opaque              Opaque, -View        []byte
//	string x<m>                  4.11  String              String, -View        string
//	T x[n]                       4.12  EncodeFixedArray    DecodeFixedArray     []T
//	T x<m>                       4.13  EncodeArray         DecodeArray          []T
//	struct                       4.14  its members, in order
//	union                        4.15  its discriminant, then the arm; NoArm if there is none
//	void                         4.16  nothing; the type Void where a value is called for
//	T *x                         4.19  EncodeOptional      DecodeOptional       *T
//	a linked list                4.19  EncodeList          DecodeList           *T
//
// A type that knows how to do this for itself has the methods of Marshaler and
// Unmarshaler. The functions for arrays and optional data take such a method as a
// function, for example (*Entry).UnmarshalXDR.
//
// # Errors
//
// Errors stick: after the first one an Encoder appends nothing more and a Decoder
// returns zero values and takes nothing more, so a caller looks at Err once, at the
// end. It is an *Error, which says what was encoded or decoded, at which octet, what
// was found and what the limit is. errors.Is finds its kind: ErrShort, ErrTooLong,
// ErrValue, ErrDepth, ErrNil, ErrCycle. What was decoded into after an error is unspecified.
//
// # Bounds
//
// A bound of Unbounded stands for the absence of one in a declaration, which means
// 2^32-1. Bounds hold on both sides: neither Encoder nor Decoder lets a longer item pass.
//
// A Decoder believes no length. Opaque data and strings must lie in the message before
// memory is taken for them. The elements of an array must be able to: each takes up at
// least the octets that its type needs, and octets that the elements of an enclosing array
// still need do not count. So the memory that a message can cause to be taken grows with
// the octets of the message, however its lengths are nested; the factor is that of the
// type, a Go value for the smallest encoding of it.
//
// Recursive types pass through optional data, variable-length arrays or arms of unions. Each of these
// counts one level of depth (for arms by Enter and Leave) while its content is encoded or decoded; more than MaxDepth
// levels, or 1024 where that is 0, are ErrDepth. It also ends the encoding of
// a Go structure that contains itself. A linked list would take a level for each element;
// EncodeList and DecodeList go along it in a loop instead. A program can decode it into a
// slice, too, because the mark before optional data is a bool:
//
//	for d.Bool() {
//		var entry Entry
//		entry.UnmarshalXDR(&d) // all but the link
//		list = append(list, entry)
//	}
//
// # Strictness
//
// An item occupies a multiple of four octets (section 3). Opaque data and strings of
// another length are followed by one to three residual octets, which are zero (sections
// 4.9, 4.10 and 4.11; RFC 1832 said so in 3.9). An Encoder writes zeros, and a Decoder
// refuses others. It refuses a bool that is neither 0 nor 1 too, so that
// a value has one encoding and what a Decoder accepts an Encoder reproduces, octet for
// octet. Floating-point values keep their bits, those of NaNs included.
//
// Strings are octets here: the RFC calls them ASCII, programs send UTF-8, and neither is
// checked. A C peer ends a string at an octet of zero.
//
// # Memory
//
// An Encoder allocates only when the caller's slice has too little capacity. A Decoder
// allocates for strings, and for opaque data, arrays and optional data where the caller
// hands in no memory to reuse. Views (OpaqueView, FixedOpaqueView, StringView) lie in the
// message and are valid as long as it is; Decoder.InPlace makes Opaque return views too,
// so that code that was written to copy can be used without a copy.
//
// No type is safe for concurrent use. The zero values of Encoder and Decoder encode into
// new memory and decode an empty message; Reset gives them another.
package xdr
