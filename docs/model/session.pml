/* A session of two sites: control connections, incarnations, generations of keys, exchanges of keys within the session,
 * datagrams and their windows, the end of keys, and expulsion. docs/PROTOCOL.md, sections 2.3, 2.8, 3, 4.3, 4.5, 4.6 and 5.5.
 *
 * One process takes all steps, so that each step is one of the engine's: what happens between two calls of it is atomic.
 * The network and the attacker are the choice of steps: `wire` holds whatever was ever sealed, and any of it may be brought
 * to either site, at any time, any number of times, or never. Connections are TLS: nobody else writes on them, but they may
 * stand still for ever, at any point.
 *
 * README.md tells what is left out, and how this is run. Each MUTANT_… takes one rule away; spin must then find a fault.
 */

#ifndef CONNECTIONS
#define CONNECTIONS 3     /* how many are dialled, before the last */
#endif
#ifndef RESTARTS
#define RESTARTS 1        /* of both sites together */
#endif
#ifndef OFFERS
#define OFFERS 1          /* exchanges begun, by both together */
#endif
#ifndef DATAGRAMS
#define DATAGRAMS 3       /* sealed, before those that mend or renew */
#endif
#ifndef ENDS
#define ENDS 1            /* how often keys reach their end */
#endif
#define LAST_CONNECTION CONNECTIONS
#define LAST_DATAGRAMS 3
#define SECRETS (CONNECTIONS + 1 + OFFERS)
#define RING SECRETS      /* the code keeps 8, of more than can be had here */
#define NONE 255

mtype:frame = { plain, rekey, rekeyed };

typedef Generation {
  byte secret;
  bit role;               /* 0 dialer, or who began; 1 acceptor, or who answered */
  bit used;               /* sealed with: `Generation::sealing` is there */
  bit retired;            /* `retire_at` is set */
  bit aead;
}
typedef Site {
  byte incarnation;
  byte peer;              /* the incarnation of the last HELLO; 0 for none */
  byte count;
  Generation ring[RING];  /* oldest first */
  byte next;              /* number of the next datagram */
  byte window;            /* numbers received, a bit each */
  byte offer;             /* begun here, 0 for none */
  byte offer_before;
  byte asked;             /* the offer that was answered */
  byte asked_before;
  byte answer;            /* the secret that came of it */
  bit gone;               /* has expelled the other one */
}
typedef Connection {
  bit open;
  bit dialer;
  byte said[2];           /* incarnation in the HELLO of dialer and acceptor; 0 for none yet */
  byte secret;
  bit waits[2];           /* whether dialer and acceptor still wait for a HELLO */
}
typedef Datagram {
  byte secret;
  bit role;
  byte number;
  mtype:frame frame;
  byte before;
  byte offer;
  byte answer;
  bit taken;
}

Site site[2];
Connection connection[CONNECTIONS + 1];
Datagram wire[DATAGRAMS + LAST_DATAGRAMS];
byte connections, datagrams, secrets, offers, restarts, incarnations, ends;


/* What no site knows, to check the properties. */
byte sealed[2 * SECRETS + 2];   /* numbers sealed with a key, a bit each */
byte aead_of[SECRETS + 1];      /* 1 + the AEAD that one end has chosen */
byte left_behind[2];            /* secrets that a site has sealed with and left, a bit each */
byte turn[2 * SECRETS + 2];     /* when a site came to use a secret, per site */
byte turns[2];
bit had[2 * SECRETS + 2];       /* whether a site has ever held a secret */

bit me;                         /* whose step it is, on which connection, with which datagram */
byte c, d;
byte j, k, u, s, r;             /* scratch: 0 between steps, as are the three above */
bit ok, renews;

/* u: the place of the generation in use at i, NONE for none (`KeyRing::in_use`). */
inline in_use(i) {
  u = NONE;
  for (j : 0 .. RING - 1) {
    if :: j < site[i].count && site[i].ring[j].used -> u = j :: else fi
  }
  j = 0
}

inline leave(i, place) {
  left_behind[i] = left_behind[i] | (1 << site[i].ring[place].secret)
}

/* Begins to seal with the generation at `place` (`KeyRing::confirm`). */
inline confirm(i, place) {
  for (j : 0 .. RING - 1) {
    if
    :: j < place ->
       site[i].ring[j].retired = 1;
       if :: site[i].ring[j].used -> leave(i, j) :: else fi
    :: else
    fi
  }
  j = 0;
  site[i].ring[place].used = 1;
  turns[i]++;
  turn[2 * site[i].ring[place].secret + i] = turns[i];
  /* Order: what both have come to use, both have in the same order. */
  for (s : 1 .. SECRETS) {
    k = site[i].ring[place].secret;
    assert(!(turn[2 * s + 1 - (i)] && turn[2 * k + 1 - (i)] && turn[2 * s + i] && s != k
      && turn[2 * s + 1 - (i)] > turn[2 * k + 1 - (i)] && turn[2 * s + i] < turn[2 * k + i]))
  }
  s = 0;
  k = 0
}

/* Puts a generation at `place`, and moves those from there on. */
inline put(i, place, new_secret, new_role, new_aead) {
  assert(site[i].count < RING);
  assert(!site[i].gone);                             /* nobody has keys with whom it has expelled */
  j = site[i].count;
  do
  :: j > place ->
     site[i].ring[j].secret = site[i].ring[j - 1].secret;
     site[i].ring[j].role = site[i].ring[j - 1].role;
     site[i].ring[j].used = site[i].ring[j - 1].used;
     site[i].ring[j].retired = site[i].ring[j - 1].retired;
     site[i].ring[j].aead = site[i].ring[j - 1].aead;
     j--
  :: else -> break
  od;
  j = 0;
  site[i].count++;
  site[i].ring[place].secret = new_secret;
  site[i].ring[place].role = new_role;
  site[i].ring[place].used = 0;
  site[i].ring[place].retired = 0;
  site[i].ring[place].aead = new_aead;
  had[2 * new_secret + i] = 1;
  /* Agreement: both ends of a secret use the same AEAD. */
  assert(aead_of[new_secret] == 0 || aead_of[new_secret] == 1 + new_aead);
  aead_of[new_secret] = 1 + new_aead
}

/* Removes the generation at `place`. */
inline remove(i, place) {
  if :: site[i].ring[place].used -> leave(i, place) :: else fi;
  site[i].count--;
  for (j : 0 .. RING - 2) {
    if
    :: j >= place && j < site[i].count ->
       site[i].ring[j].secret = site[i].ring[j + 1].secret;
       site[i].ring[j].role = site[i].ring[j + 1].role;
       site[i].ring[j].used = site[i].ring[j + 1].used;
       site[i].ring[j].retired = site[i].ring[j + 1].retired;
       site[i].ring[j].aead = site[i].ring[j + 1].aead
    :: else
    fi
  }
  j = 0;
  wipe(i, site[i].count)
}

/* An unused place looks always alike, so that equal states are equal. */
inline wipe(i, place) {
  site[i].ring[place].secret = 0;
  site[i].ring[place].role = 0;
  site[i].ring[place].used = 0;
  site[i].ring[place].retired = 0;
  site[i].ring[place].aead = 0
}

/* Drops all keys, and the exchange under way (`KeyRing::clear`). */
inline clear_keys(i) {
  for (k : 0 .. RING - 1) {
    if :: k < site[i].count && site[i].ring[k].used -> leave(i, k) :: else fi;
    wipe(i, k)
  }
  k = 0;
  site[i].count = 0;
  site[i].offer = 0;
  site[i].offer_before = 0;
  site[i].asked = 0;
  site[i].asked_before = 0;
  site[i].answer = 0
}

/* The session begins anew: numbers and windows go back, under new keys only (`Session::start_anew`). */
inline start_anew(i) {
#ifndef MUTANT_KEEPS_KEYS
  clear_keys(i);
#endif
  site[i].next = 0;
  site[i].window = 0
}

/* A HELLO of the peer is read on connection at (`Session::on_hello`); `as` is 0 for its dialer, 1 for its acceptor. */
inline hear(i, at, as) {
  connection[at].waits[as] = 0;
  if :: as == 1 -> connection[at].said[1] = site[i].incarnation :: else fi;
  if
  :: site[i].peer != connection[at].said[1 - as] ->
#ifdef MUTANT_NO_INCARNATION
     if :: site[i].peer == 0 -> start_anew(i) :: else fi;
#else
     start_anew(i);
#endif
     site[i].peer = connection[at].said[1 - as]
  :: else
  fi;
  /* Only where both prefer it is it AES; site 1 prefers ChaCha from its second life on. */
  in_use(i);
  ok = u == NONE;
  r = connection[at].said[1 - connection[at].dialer] > 2;
  s = site[i].count;
  put(i, s, connection[at].secret, as, r);
  s = 0;
  r = 0;
#ifdef MUTANT_SEALS_EARLY
  ok = 1;
#endif
  if
  :: as == 0 || ok -> u = site[i].count - 1; confirm(i, u)
  :: else
  fi;
  u = 0;
  ok = 0;
#ifndef MUTANT_KEEPS_CONNECTIONS
  /* It counts from here on, and the others end, on this side. */
  for (k : 0 .. CONNECTIONS) {
    if
    :: k != at && connection[k].open ->
       if
       :: connection[k].dialer == i -> connection[k].waits[0] = 0
       :: else -> connection[k].waits[1] = 0
       fi
    :: else
    fi
  }
  k = 0
#endif
}

inline dial(i, at) {
  connection[at].open = 1;
  connection[at].dialer = i;
  secrets++;
  connection[at].secret = secrets;
  connection[at].said[0] = site[i].incarnation;
  connection[at].waits[0] = 1;
  connection[at].waits[1] = 1
}

/* Seals a datagram with the generation at u. */
inline seal(i, what, regarding, an_offer, an_answer) {
  s = site[i].ring[u].secret;
#ifdef MUTANT_ONE_KEY
  r = 0;
#else
  r = site[i].ring[u].role;
#endif
  /* No nonce twice. */
  assert((sealed[2 * s + r] & (1 << site[i].next)) == 0);
  sealed[2 * s + r] = sealed[2 * s + r] | (1 << site[i].next);
  /* No way back: what a site has left it never seals with again. */
  assert((left_behind[i] & (1 << s)) == 0);
  /* The peer holds the key, or the site has no other, as after a session began anew. */
  for (j : 0 .. RING - 1) {
    if :: j < u && site[i].ring[j].used -> assert(had[2 * s + 1 - (i)]) :: else fi
  }
  j = 0;
  wire[datagrams].secret = s;
  wire[datagrams].role = site[i].ring[u].role;
  wire[datagrams].number = site[i].next;
  wire[datagrams].frame = what;
  wire[datagrams].before = regarding;
  wire[datagrams].offer = an_offer;
  wire[datagrams].answer = an_answer;
  datagrams++;
  site[i].next++;
  s = 0;
  r = 0
}

#ifdef MUTANT_NO_WINDOW
#define IS_NEW(i, d) 1
#else
#define IS_NEW(i, d) ((site[i].window & (1 << wire[d].number)) == 0)
#endif

/* Takes a datagram, whoever brings it (section 5.5). ok: whether it is accepted. */
inline take(i, which) {
  ok = 0;
  u = NONE;
  for (j : 0 .. RING - 1) {
    if
    :: j < site[i].count && site[i].ring[j].secret == wire[which].secret && site[i].ring[j].role != wire[which].role -> u = j
    :: else
    fi
  }
  j = 0;
  if
  :: u != NONE && IS_NEW(i, which) ->
     ok = 1;
     assert(!wire[which].taken);                         /* no datagram is accepted twice, ever, by anybody */
     wire[which].taken = 1;
     site[i].window = site[i].window | (1 << wire[which].number);
     if
     :: !site[i].ring[u].used && !site[i].ring[u].retired -> confirm(i, u)
     :: else
     fi;
     u = 0;
     if
     :: wire[which].frame == rekey -> on_rekey(i, which)
     :: wire[which].frame == rekeyed -> on_rekeyed(i, which)
     :: else
     fi
  :: else
  fi;
  u = 0
}

/* Rules of an exchange: a generation is answered once; of two offers that of site 0 prevails; an answer counts while the
 * generation before is in use. */
#define HAS_NOT_ANSWERED(i, d) (site[i].asked_before != wire[d].before)
#ifdef MUTANT_NOBODY_PREVAILS
#define GIVES_WAY(i, d) 1
#else
#define GIVES_WAY(i, d) (i == 1 || site[i].offer == 0 || site[i].offer_before != wire[d].before)
#endif
#ifdef MUTANT_NO_ORDER
#define STILL_COUNTS(i) 1
#else
#define STILL_COUNTS(i) (site[i].offer_before == site[i].ring[u].secret)
#endif

/* The peer begins an exchange, or asks again (`KeyRing::may_answer`, `answer`, `answered`). */
inline on_rekey(i, which) {
  in_use(i);
  if
  :: site[i].asked == wire[which].offer && site[i].asked_before == wire[which].before
  :: else ->
     if
     :: u != NONE && site[i].ring[u].secret == wire[which].before && HAS_NOT_ANSWERED(i, which) && GIVES_WAY(i, which) ->
        secrets++;
        s = u + 1;
        r = site[i].ring[u].aead;
        put(i, s, secrets, 1, r);
        s = 0;
        r = 0;
        site[i].offer = 0;
        site[i].offer_before = 0;
        site[i].asked = wire[which].offer;
        site[i].asked_before = wire[which].before;
        site[i].answer = secrets
     :: else
     fi
  fi;
  in_use(i);
  if
  :: u != NONE && site[i].asked == wire[which].offer && (datagrams < DATAGRAMS || renews) ->
     seal(i, rekeyed, 0, site[i].asked, site[i].answer)
  :: else
  fi
}

/* The peer has answered (`KeyRing::on_rekeyed`). */
inline on_rekeyed(i, which) {
  in_use(i);
  if
  :: u != NONE && site[i].offer && site[i].offer == wire[which].offer && STILL_COUNTS(i) ->
     site[i].offer = 0;
     site[i].offer_before = 0;
     s = u + 1;
     r = site[i].ring[u].aead;
     k = wire[which].answer;
     put(i, s, k, 0, r);
     k = 0;
     r = 0;
     u = s;
     s = 0;
     confirm(i, u)
  :: else
  fi
}

/* Whether site i may ask for an exchange (`KeyRing::exchange_at`); u is what it has in use. */
#define HAS_OFFERED(i) (site[i].offer && site[i].offer_before == site[i].ring[u].secret)
#define HAS_ANSWERED(i) (site[i].asked_before == site[i].ring[u].secret)
#define MAY_ASK(i) (u != NONE && !HAS_ANSWERED(i) && (HAS_OFFERED(i) || offers < OFFERS))

inline ask(i) {
  if
  :: HAS_OFFERED(i)
  :: else -> offers++; site[i].offer = offers; site[i].offer_before = site[i].ring[u].secret
  fi;
  seal(i, rekey, site[i].ring[u].secret, site[i].offer, 0)
}

/* Starts from nothing. Of connections whose handshake the other one has begun, a program that ends knows no more; one
 * that has only expelled the other has them yet. */
inline start(i, lives) {
  clear_keys(i);
  for (k : 0 .. CONNECTIONS) {
    if
    :: connection[k].open && connection[k].dialer == i -> connection[k].waits[0] = 0
    :: connection[k].open && connection[k].dialer != i && !lives -> connection[k].waits[1] = 0
    :: else
    fi
  }
  k = 0;
  incarnations++;
  site[i].incarnation = incarnations;
  site[i].peer = 0;
  site[i].next = 0;
  site[i].window = 0
}

/* Nothing is stuck: in whatever state the two are, one connection on which both HELLOs arrive, and one datagram in each
 * direction, and both seal with the new keys and hear each other. */
inline mend(i) {
  dial(i, LAST_CONNECTION);
  hear(1 - (i), LAST_CONNECTION, 1);
  hear(i, LAST_CONNECTION, 0);
  in_use(i);
  seal(i, plain, 0, 0, 0);
  take(1 - (i), datagrams - 1);
  assert(ok);
  in_use(1 - (i));
  assert(site[1 - (i)].ring[u].secret == connection[LAST_CONNECTION].secret);
  seal(1 - (i), plain, 0, 0, 0);
  take(i, datagrams - 1);
  assert(ok);
  forget()
}

/* The same without a connection: if both seal with the same generation, however far exchanges have come from it, one that
 * is not disturbed brings both to another one. i: who asks. */
inline renew(i) {
  renews = 1;
  in_use(i);
  assert(!HAS_ANSWERED(i));
  ask(i);
  take(1 - (i), datagrams - 1);
  assert(ok && wire[datagrams - 1].frame == rekeyed);
  take(i, datagrams - 1);
  assert(ok);
  in_use(i);
  assert(site[i].ring[u].secret == wire[datagrams - 1].answer);
  seal(i, plain, 0, 0, 0);
  take(1 - (i), datagrams - 1);
  assert(ok);
  in_use(1 - (i));
  assert(site[1 - (i)].ring[u].secret == wire[datagrams - 1].secret);
  renews = 0;
  forget()
}

/* Whether both seal with the same. */
inline compare() {
  in_use(0);
  s = u;
  in_use(1);
  ok = s != NONE && u != NONE;
  if :: ok -> ok = site[0].ring[s].secret == site[1].ring[u].secret :: else fi;
  s = 0
}

/* All that was well looks alike: one state to keep instead of one for each. */
inline forget() {
  start(0, 0);
  start(1, 0);
  site[0].incarnation = 0;
  site[1].incarnation = 0;
  for (k : 0 .. CONNECTIONS) {
    connection[k].open = 0;
    connection[k].dialer = 0;
    connection[k].said[0] = 0;
    connection[k].said[1] = 0;
    connection[k].secret = 0
  }
  for (k : 0 .. DATAGRAMS + LAST_DATAGRAMS - 1) {
    wire[k].secret = 0;
    wire[k].role = 0;
    wire[k].number = 0;
    wire[k].frame = 0;
    wire[k].before = 0;
    wire[k].offer = 0;
    wire[k].answer = 0;
    wire[k].taken = 0
  }
  for (k : 0 .. 2 * SECRETS + 1) {
    sealed[k] = 0;
    turn[k] = 0;
    had[k] = 0
  }
  for (k : 0 .. SECRETS) {
    aead_of[k] = 0
  }
  for (k : 0 .. 1) {
    left_behind[k] = 0;
    turns[k] = 0
  }
  k = 0;
  u = 0;
  ok = 0;
  connections = 0;
  datagrams = 0;
  secrets = 0;
  offers = 0;
  restarts = 0;
  incarnations = 0;
  ends = 0
}

#ifdef MUTANT_EXPELS_HALF
#define KNOWN(i) 1
#else
#define KNOWN(i) (!site[i].gone)
#endif

#define ACQUAINTED (!site[0].gone && !site[1].gone)

init {
  d_step {
    incarnations = 2;
    site[0].incarnation = 1;
    site[1].incarnation = 2
  }
end:
  do
  :: atomic {
       if :: me = 0 :: me = 1 fi;
       if
       :: d_step { connections < CONNECTIONS && ACQUAINTED -> dial(me, connections); connections++ }
       :: d_step { site[me].count > 0 && datagrams < DATAGRAMS -> in_use(me) };
          if
          :: u != NONE -> d_step { seal(me, plain, 0, 0, 0) }
          :: MAY_ASK(me) -> d_step { ask(me) }
          :: else
          fi
       :: d_step { site[me].count > 0 && site[me].ring[0].retired -> remove(me, 0) }
       :: d_step {
            site[me].count > 0 && ends < ENDS ->
            ends++;
            in_use(me);
            do :: u != NONE -> remove(me, 0); in_use(me) :: else -> break od;
            u = 0
          }
       :: d_step { restarts < RESTARTS -> restarts++; start(me, 0) }
       :: d_step { ACQUAINTED -> start(me, 1); site[me].gone = 1 }
       :: d_step { ACQUAINTED -> mend(me) }
       :: d_step { me == 0 && datagrams > 0 && ACQUAINTED -> compare() };
          if
          :: ok -> d_step { in_use(0); if :: HAS_ANSWERED(0) -> me = 1 :: else fi; renew(me) }
          :: else
          fi
       :: if :: c = 0 :: c = 1 :: CONNECTIONS > 2 -> c = 2 fi;
          if
          :: connection[c].dialer == me && connection[c].waits[0] && connection[c].said[1] ->
             d_step { hear(me, c, 0) }
          :: connection[c].open && connection[c].dialer != me && connection[c].waits[1] && KNOWN(me) ->
             d_step { hear(me, c, 1) }
          :: else
          fi
       :: if :: d = 0 :: d = 1 :: d = 2 :: d = 3 :: DATAGRAMS > 4 -> d = 4 fi;
          if
          :: d < datagrams -> d_step { take(me, d) }
          :: else
          fi
       :: skip
       fi;
       d_step { me = 0; c = 0; d = 0; u = 0; ok = 0 }
     }
  od
}
