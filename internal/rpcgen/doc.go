// Package rpcgen makes Go of a specification in RPC language: XDR's (RFC 4506 section 6)
// with the programs of ONC RPC (RFC 5531 section 12). `bobnet rpcgen` is its command. What it
// generates uses the packages vmmc/xdr and vmmc/vrpc.
//
// # Language
//
// All of both RFCs is there, and what the C rpcgen has beside:
//
//	definition                                   source                  Go
//	const NAME = 10; 0xa; 012                    RFC 4506 section 4.17   an untyped constant
//	const NAME = "text";                         rpcgen                  the same
//	enum name { A = 1, B = 2 };                  4.3                     a type of int32, its constants, String
//	enum name { A, B, };                         rpcgen                  numbers count from 0, or from the one before
//	struct name { ... };                         4.14                    a struct
//	union name switch (T tag) { ... };           4.15                    a struct of tag and arms
//	typedef T name;                              4.18                    a defined type, or an alias
//	typedef struct { ... } name;                 6.3                     a struct
//	program NAME { version ... } = n;            RFC 5531 section 12     see below
//
//	declaration, T a type                        section                 Go
//	int x; unsigned int x; unsigned x            4.1, 4.2                int32, uint32
//	hyper x; unsigned hyper x                    4.5                     int64, uint64
//	float x; double x; quadruple x               4.6, 4.7, 4.8           float32, float64, xdr.Quadruple
//	bool x                                       4.4                     bool
//	char, short, long, each also unsigned        rpcgen                  int8, int16, int32 and so on, in 4 bytes
//	u_int, u_long, int64_t, uint8_t, quad_t ...  rpcgen's libraries      the same
//	opaque x[n]; opaque x<n>; opaque x<>         4.9, 4.10               [n]byte, []byte
//	string x<n>; string x<>                      4.11                    string
//	T x[n]; T x<n>; T x<>                        4.12, 4.13              [n]T, []T
//	T *x                                         4.19                    *T
//	struct { ... } x; also enum, union           6.3                     a type of its own
//	struct name x; also enum, union              rpcgen                  the type of that name
//
// Definitions may stand in any order. Constants and enumerations' names serve as lengths, bounds,
// values and cases; TRUE and FALSE are 1 and 0; a case may be a character ('a').
//
// Section 6.4 of RFC 4506 and section 12.3 of RFC 5531 say what the grammar does not, and the
// checker holds them: names are declared, once; lengths and numbers lie in their ranges;
// a union is switched by an int, unsigned int, bool or enumeration (or a shorter integer),
// with cases that this can be, each once; versions and procedures have names and numbers of
// their own. As in C, two names of an enumeration may have one number, two programs may have one
// number if their versions differ, an arm may be named like its discriminant, and a constant or
// typedef may be given twice alike. A type contains itself by way of optional data, a counted
// array, or an arm of a union that has another arm without it (RFC 4506 section 4.19).
//
// Types and constants of C's headers are not known beyond those above. The command's -D gives them a
// meaning: -D time_t=int, -D MAXPATHLEN=1024; so does a typedef between #ifdef RPC_GO and #endif.
//
// # The preprocessor
//
// The C rpcgen runs the C preprocessor over its input. This package does the same work itself,
// so that no C compiler is needed: #define without parameters, #undef, #include, #if, #ifdef,
// #ifndef, #elif, #else, #endif and #error; #pragma and #ident are passed over, and line
// markers (# 12 "file.x") say where errors are. A macro with parameters is an error.
// RPC_GO is defined, and RPC_HDR is, because types and constants are what rpcgen's header is
// made of. RPC_XDR, RPC_CLNT, RPC_SVC and RPC_TBL are not.
//
// A line that begins with a percent sign is copied to the output without a look at it. In a file for
// both languages such lines are C, so it is copied here only where a condition around it
// names RPC_GO:
//
//	#ifdef RPC_GO
//	%var ErrGone = errors.New("gone")
//	#else
//	%#include "errors.h"
//	#endif
//
// Comments are C's, and // to the end of a line. One that ends in the line before
// a definition, member, arm, version or procedure becomes part of its Go comment.
//
// # Names
//
// A name is split at its underscores, and each part begins with a capital. If the name has no
// small letter the rest of each part is written small: read_args, ReadArgs and READ_ARGS are
// all ReadArgs, fileID stays FileID. What would begin with a digit, or is empty, gets an X before
// it. A type that is declared within another is called as what it is in and its member:
// OuterInner is struct { ... } inner in struct outer. The elements of an array that a typedef
// declares end in Elem.
//
// A name that is taken already gets underscores behind it until it is new. Names are given in
// the order of the file to types first, then to constants, to names of enumerations, to
// programs and versions, and last to what is derived of those. Names in a struct are a scope of
// their own, in which its methods are taken; so are the procedures of a version. Go's
// keywords are no danger to exported names; a parameter that would be one, or a name that Go declares
// itself, gets an underscore, too.
//
// # Types
//
// Types have the methods MarshalXDR and UnmarshalXDR of package xdr on their pointers, which hold
// the bounds of the specification in both directions. Two kinds of typedef are aliases and have
// none of their own: another name of a type (typedef a b), and optional data (typedef a *b),
// because Go has no methods on pointers.
//
// A union is a struct: the discriminant, and a field for each arm, of which one counts. An arm that is
// a struct, a union, an array of a fixed length or a quadruple is a pointer to that, so that
// a union is not as large as all its arms; it must not be nil where the discriminant selects it
// (xdr.ErrNil).
//
// Decoding replaces the whole value and uses the memory of the old one again, as package
// xdr does. A struct whose last member is optional data of its own type is a linked list: it is
// coded in a loop and may have any length (xdr.EncodeList). A union that contains itself through
// an arm is not: each such arm is a level of depth, of which xdr.Decoder.MaxDepth allows 1,024 unless
// the program says otherwise.
//
// # Programs
//
// A version FILE_V1 of program FILE_PROG with a procedure READ becomes
//
//	const FileProg, FileV1, FileV1Read   the numbers
//	type FileV1Server interface          a method for each procedure, but for void NULL(void) = 0
//	func FileV1Program(s FileV1Server)   the entry for vrpc.Server.Register
//	type FileV1Client struct             a method for each procedure, over a vrpc.Client
//	func NewFileV1Client(t, cfg)         a client over a transport
//
// A method has the procedure's arguments as parameters, after a context at the client and a
// *vrpc.Call at the server. There may be several, which are encoded one after the other, as
// rpcgen -N does; they may have names. Structs, unions, arrays of a fixed length and quadruples
// are passed by pointer, and a result that is one is decoded into the caller's memory:
//
//	read_result READ(read_args) = 1;   Read(ctx, arg *ReadArgs, res *ReadResult) error
//	int ADD(int a, int b) = 2;         Add(ctx, a int32, b int32) (int32, error)
//	string NAME(void) = 3;             Name(ctx) (string, error)
//
// Procedure 0 is no matter of the program if it takes and returns nothing: package vrpc
// answers it, as the C rpcgen's servers do. A call takes no memory beside what strings and counted arrays need.
//
// # Errors
//
// Generate goes on after an error, and returns all of them as an ErrorList, at most one for each
// line. Each shows file, line, column and the line itself.
package rpcgen
