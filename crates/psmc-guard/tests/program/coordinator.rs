//! A coordinator that says what a test wants, and writes down what it hears.

use std::net::SocketAddr;
use std::sync::mpsc as sync;
use std::thread::{self, JoinHandle};

use psmc_net::keys::{PrivateKey, PublicKey};
use psmc_net::tls::tcp::listen_tcp;
use psmc_net::tls::{Acceptor, AllowedKeys, Identity};
use psmc_signal::connection::Greeting;
use psmc_signal::{ALPN, Message};
use psmc_testbed::netns::Namespace;
use tokio::sync::mpsc;

use crate::world::PATIENCE;

pub(crate) struct Coordinator {
    pub(crate) address: SocketAddr,
    pub(crate) key: PublicKey,
    say: Option<mpsc::Sender<Message>>,
    heard: sync::Receiver<Message>,
    thread: Option<JoinHandle<()>>,
}

impl Coordinator {
    /// Takes one guard after the other, at a port of the loopback interface. Each alert and each end of one is noted.
    pub(crate) fn start(namespace: &Namespace, guard: PublicKey) -> Self {
        let identity = Identity::new(&PrivateKey::generate());
        let key = identity.public();
        let (say, to_say) = mpsc::channel(16);
        let (heard_to, heard) = sync::channel();
        let (address_to, address) = sync::channel();
        let acceptor = Acceptor::for_protocol(&identity, [guard].into_iter().collect::<AllowedKeys>(), ALPN);
        // The thread belongs to the namespace for good.
        let fd = namespace.fd().try_clone_to_owned().unwrap();
        let thread = thread::spawn(move || {
            nix::sched::setns(&fd, nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(serve(&acceptor, &address_to, to_say, &heard_to));
        });
        let address = address.recv().unwrap();
        Self { address, key, say: Some(say), heard, thread: Some(thread) }
    }

    pub(crate) fn say(&self, message: Message) {
        self.say.as_ref().unwrap().blocking_send(message).unwrap();
    }

    /// The next message of which `choose` makes something; others are passed over.
    pub(crate) fn hear<T>(&self, what: &str, mut choose: impl FnMut(Message) -> Option<T>) -> T {
        loop {
            let message =
                self.heard.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what} was not heard"));
            if let Some(found) = choose(message) {
                return found;
            }
        }
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        self.say = None;
        if let Some(thread) = self.thread.take()
            && let Err(panic) = thread.join()
            && !thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

async fn serve(
    acceptor: &Acceptor,
    address: &sync::Sender<SocketAddr>,
    mut to_say: mpsc::Receiver<Message>,
    heard: &sync::Sender<Message>,
) {
    let listener = listen_tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    address.send(listener.local_addr().unwrap()).unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let secured = acceptor.accept(stream).await.unwrap();
    let channel = Greeting::receive(secured.stream).await.unwrap().welcome().await.unwrap();
    let (out, mut outgoing) = mpsc::channel(16);
    let (incoming, mut received) = mpsc::channel(16);
    let carry = channel.run(&mut outgoing, &incoming);
    let talk = async {
        loop {
            tokio::select! {
                message = to_say.recv() => match message {
                    Some(message) => out.send(message).await.unwrap(),
                    None => return,
                },
                message = received.recv() => {
                    let message = message.unwrap();
                    if let Message::Alert(psmc_signal::Alert { id, .. }) | Message::Clear { id, .. } = &message {
                        out.send(Message::Noted { id: id.clone() }).await.unwrap();
                    }
                    // A test that has ended hears nothing any more.
                    let _ = heard.send(message);
                }
            }
        }
    };
    tokio::select! {
        // The guard may end first.
        _ = carry => {}
        () = talk => {}
    }
}
